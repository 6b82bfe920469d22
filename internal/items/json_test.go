package items

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"
)

// values is data to read: valid and not.
var values = []string{
	`{"a": [1, -0, 1.50, 1e5, 2E-3, 0.1e+2, true, false, null, "x", {}, [ ], { "b" : [ [ ] ] } ] , "c":"" }`,
	`"é\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00 and a text that is longer than eight bytes, é too"`,
	" 12 ", "-1", "0", "[\t1\r\n]", "nul", "nulx", "tru", "-", "1.", "1.e5", "1e", "1e+", "-x", "01", "00", "+1", ".5", "[1 2]", "[1,]", "[,1]",
	`{"a"}`, `{"a":}`, `{"a" 1}`, `{,}`, `{"a":1,}`, `{1:2}`, `{"a":1 "b":2}`, "[", "{", `"`, `"\`, `"\x"`, `"\u12"`, `"\u12g4"`, `"\ud83d"`, `"\ud83d\n"`,
	`"\ude00"`, `"\ud83d\u0041"`, "\"\x01\"", "\"\xff\"", "\"\xc3\"", "\"\xed\xa0\x80\"", "\"12345678\x1f\"", "\"1234567\xc3\xa9\"", "]", "}", "[1}", `{"a":1]`, "[]]", "é",
	strings.Repeat("[", 300) + strings.Repeat("]", 300), strings.Repeat("[", 10_001),
}

// sameAsJSONText reads data in two ways, which must agree.
func sameAsJSONText(t *testing.T, data string) {
	valid := jsontext.Value(data).IsValid(jsontext.AllowDuplicateNames(true))
	for name, in := range map[string]io.Reader{
		"at once": strings.NewReader(data), "by bytes": iotest.OneByteReader(strings.NewReader(data)), "by halves": iotest.HalfReader(strings.NewReader(data)),
	} {
		r := newReader(&peekReader{r: in})
		raw, err := r.value()
		raw = bytes.Clone(raw)
		if err == nil {
			if _, rest := r.kind(); rest != io.EOF {
				err = io.ErrNoProgress
			}
		}
		if (err == nil) != valid {
			t.Fatalf("%.60q %s: got %v, want valid %t", data, name, err, valid)
		}
		var want bytes.Buffer
		if valid && (json.Compact(&want, []byte(data)) != nil || !bytes.Equal(raw, want.Bytes())) {
			t.Fatalf("%.60q %s: got %.60q, want %.60q", data, name, raw, want.Bytes())
		}
		if valid {
			skips(t, data)
		}
	}
}

// skips goes past the data, and past each of its parts as a path does.
func skips(t *testing.T, data string) {
	r := newReader(&peekReader{r: iotest.OneByteReader(strings.NewReader(data + " 7"))})
	if err := r.skip(); err != nil {
		t.Fatalf("%.60q: %v", data, err)
	}
	if got, err := r.value(); err != nil || string(got) != "7" {
		t.Fatalf("%.60q: got %.60q, %v behind it, want 7", data, got, err)
	}
}

func TestValuesAreReadAsByJSONText(t *testing.T) {
	for _, data := range values {
		sameAsJSONText(t, data)
		sameAsJSONText(t, "["+data+"]")
		sameAsJSONText(t, `{"x":`+data+`, "y": 1}`)
	}
}

func TestWhatIsNotJSONIsToldInWords(t *testing.T) {
	for data, want := range map[string]string{
		"x":         "not JSON: invalid character 'x' at start of value",
		"007":       "not JSON: invalid character '0' after a value (expecting a space)",
		"true1":     "not JSON: invalid character '1' after a value (expecting a space)",
		"[1 2]":     "not JSON: invalid character '2' after array element (expecting ',' or ']')",
		`{"a" 1}`:   "not JSON: invalid character '1' after object name (expecting ':')",
		`{"a":1 2}`: "not JSON: invalid character '2' after object value (expecting ',' or '}')",
		`{a:1}`:     "not JSON: invalid character 'a' at start of ", // of a value or a string
		"nux":       "not JSON: invalid character 'x' in literal null (expecting 'l')",
		"-x":        "not JSON: invalid character 'x' in number (expecting digit)",
		"[-.5]":     "not JSON: invalid character '.' in number (expecting digit)",
		"\xff":      "not valid UTF-8",
		"\"\xc3a\"": "not valid UTF-8",
		"\"\n\"":    `not JSON: invalid character '\n' in string (expecting non-control character)`,
		`"\q"`:      "not JSON: invalid escape sequence `\\q` in string",
		`"\ud800"`:  "not JSON: invalid surrogate pair `\\ud800\"` in string",
		"[1":        "unexpected end of JSON",
		`{"a":`:     "unexpected end of JSON",
		`{"a`:       "unexpected end of JSON",
		`{"a" `:     "unexpected end of JSON",
	} {
		for _, path := range []string{"", "$[*]", "$.*", "$.a"} {
			p, err := parsePath(path)
			if err != nil {
				t.Fatal(err)
			}
			f := &peekReader{r: strings.NewReader(data)}
			if err := f.each(p, p, func([]byte) error { return nil }); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%q with %q\ngot  %v\nwant %s", data, path, err, want)
			}
		}
	}
}

func FuzzReader(f *testing.F) {
	for _, data := range values {
		f.Add(data)
	}
	f.Fuzz(sameAsJSONText)
}
