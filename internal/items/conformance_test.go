package items

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"prodigy/internal/rawjson"
	"prodigy/internal/testenv"
	"prodigy/internal/workflow"
)

// sequences are the documents of the suite that hold more than one value, or none: a file of items may.
var sequences = map[string]bool{
	"n_structure_double_array":                 true,
	"n_structure_object_with_trailing_garbage": true,
	"n_structure_no_data":                      true,
	"n_single_space":                           true,
	"n_structure_UTF8_BOM_no_data":             true,
	"i_structure_UTF-8_BOM_empty_object":       true, // files may begin with it
}

func TestInputsAcceptWhatTheSuiteSays(t *testing.T) {
	for _, c := range testenv.JSONCases(t) {
		for _, format := range []string{"json", "jsonl"} {
			for _, src := range []string{"", "$", "$[*]", "$..a", "$.a.b"} {
				p, err := parsePath(src)
				if err != nil {
					t.Fatal(err)
				}
				for _, halves := range []bool{false, true} {
					f := &peekReader{r: strings.NewReader(c.JSON)}
					if halves {
						f.r = iotest.HalfReader(f.r)
					}
					err := f.read(format, p, func(raw []byte) error { return readable(raw) })
					if valid := c.Valid || sequences[c.Name]; (err == nil) != valid {
						t.Errorf("%s as %s with %q: %.60q: got %v, want valid %t", c.Name, format, src, c.JSON, err, valid)
					}
				}
			}
		}
	}
}

// readable returns an error unless raw is one value without blanks between its parts.
func readable(raw []byte) error {
	if !rawjson.Valid(raw) || !bytes.Equal(rawjson.Compact(new([]byte), raw), raw) {
		return fmt.Errorf("got %.60q, which is no compact JSON", raw)
	}
	return nil
}

// storing stores the items of data in a format and reads them again, which must give the same.
func storing(t *testing.T, s *Store, format, data string) {
	t.Helper()
	if err := s.Clear(); err != nil {
		t.Fatal(err)
	}
	var want []string
	m := &workflow.Map{Input: workflow.Input{Stdin: true, Format: format}}
	for it, err := range Select(t.Context(), m, Env{Stdin: strings.NewReader(data)}) {
		if err != nil {
			break
		}
		want = append(want, string(it.Data))
		if err := s.Append(it); err != nil {
			t.Fatalf("%.60q as %s: an item that was selected cannot be stored: %.60q: %v", data, format, it.Data, err)
		}
	}
	for i, data := range want {
		if it, err := s.At(i); err != nil || string(it.Data) != data {
			t.Fatalf("%.60q as %s: got item %.60q, %v", data, format, it.Data, err)
		}
	}
	if read, err := OpenStore(s.file.Name()); err != nil || read.Len() != len(want) || read.Close() != nil {
		t.Fatalf("%.60q as %s: got %v, want a store of %d", data, format, err, len(want))
	}
}

// Whatever is accepted can be written to the store of items and read back equal.
func TestAcceptedItemsCanBeStored(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	texts := []string{"007", "-.5", "1.", "[1]x", "1[2]", "12 34", "truefalse", "null1", `"a""b"`, nested(rawjson.MaxDepth), "[" + nested(9_999) + ",1]"}
	for i, c := range testenv.JSONCases(t) {
		if i%testenv.OneIn(20, 5) == 0 {
			texts = append(texts, c.JSON)
		}
	}
	s, _ := newStore(t, 0)
	for _, text := range texts {
		for _, format := range append(workflow.Formats(), "") {
			if format == "yaml" && len(text) > 1_000 {
				continue // its reader takes long for what nests deeply
			}
			for _, data := range []string{text, `{"a":` + text + "}", "[" + text + "]\n" + text + "\n"} {
				storing(t, s, format, data)
			}
		}
	}
}

// YAML is read by another reader, which nests further.
func TestYAMLThatNestsDeeplyIsRefused(t *testing.T) {
	data := "- " + strings.Repeat("[", 9_500) + strings.Repeat("]", 9_500) + "\n"
	m := &workflow.Map{Input: workflow.Input{Stdin: true, Format: "yaml"}}
	for it, err := range Select(t.Context(), m, Env{Stdin: strings.NewReader(data)}) {
		if want := "is nested more than 9000 levels"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got an item of %d bytes and %v, want: %s", len(it.Data), err, want)
		}
	}
}

// mangled changes one place of a document.
func mangled(r *rand.Rand, text string) string {
	const parts = `[]{}:,"\0123-+.eE truefalsn` + "\n\x00\x1f\xff\xed"
	if text == "" {
		return text
	}
	at, part := r.IntN(len(text)), string(parts[r.IntN(len(parts))])
	switch r.IntN(3) {
	case 0:
		return text[:at] + part + text[at:]
	case 1:
		return text[:at] + part + text[at+1:]
	}
	return text[:at] + text[at+1:]
}

func TestAMangledDocumentIsReadAsByJSONText(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 0))
	all := testenv.JSONCases(t)
	for range 1_000 {
		c := all[r.IntN(len(all))]
		if len(c.JSON) < 1_000 {
			sameAsJSONText(t, mangled(r, mangled(r, c.JSON)))
		}
	}
}

func FuzzAcceptedItemsCanBeStored(f *testing.F) {
	formats := append(workflow.Formats(), "")
	for i := range formats {
		f.Add("[007, -.5]\n{\"a\":1}x", byte(i))
	}
	f.Fuzz(func(t *testing.T, text string, format byte) {
		s, _ := newStore(t, 0)
		storing(t, s, formats[int(format)%len(formats)], text)
	})
}
