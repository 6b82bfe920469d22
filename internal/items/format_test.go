package items

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/rawjson"
	"prodigy/internal/workflow"
)

var formatCases = []struct {
	name, format, text, path string
	want                     []string
}{
	{"rows are objects of texts", "csv", "id,n\n007,1.10\n,\n", "", []string{`{"id":"007","n":"1.10"}`, `{"id":"","n":""}`}},
	{"quoted fields hold anything", "csv", "a,b\r\n\"x,\"\"y\"\"\",\"line\nbreak\"\r\n", "", []string{`{"a":"x,\"y\"","b":"line\nbreak"}`}},
	{"blanks belong to a field", "csv", " a ,b\n x , y\n", "", []string{`{" a ":" x ","b":" y"}`}},
	{"a last line may lack its end", "csv", "a\n1\n\n2", "", []string{`{"a":"1"}`, `{"a":"2"}`}},
	{"a header alone has no rows", "csv", "a,b\n", "", nil},
	{"nothing has no rows", "csv", "", "", nil},
	{"a mark is no part of the header", "csv", "\uFEFFa\n1\n", "", []string{`{"a":"1"}`}},
	{"a path selects from each row", "csv", "a,b\n1,2\n3,4\n", "$.b", []string{`"2"`, `"4"`}},
	{"tabs part fields", "tsv", "a\tb\n1,5\t \"x\n", "", nil},
	{"tabs part fields, and quotes quote", "tsv", "a\tb\n1,5\t\"x\ty\"\n", "", []string{`{"a":"1,5","b":"x\ty"}`}},
	{"lines are texts", "lines", "  a b \n\n7\n\tnull\r\n \n{\"x\":1}", "", []string{`"  a b "`, `"7"`, `"\tnull"`, `"{\"x\":1}"`}},
	{"a path over lines", "lines", "a\nb\n", "$", []string{`"a"`, `"b"`}},
	{"a line keeps what is before its end", "lines", "a\r\r\nb\r", "", []string{`"a\r"`, `"b\r"`}},
	{"texts that NUL bytes end", "nul", "a\n b\r\n\x00\x00 \x00-last", "", []string{`"a\n b\r\n"`, `" "`, `"-last"`}},
	{"a path over texts that NUL bytes end", "nul", "a\x00b\x00", "$", []string{`"a"`, `"b"`}},
	{"no text that a NUL byte ends", "nul", "\x00", "", nil},
	{"no lines", "lines", "\n \n", "", nil},
	{"a list of YAML gives its elements", "yaml", "- a: 1.10\n  b: [~, yes, 2024-01-02]\n- 0x10\n", "", []string{`{"a":1.10,"b":[null,"yes","2024-01-02"]}`, "16"}},
	{"a mapping of YAML is one item", "yaml", "a: b\n", "", []string{`{"a":"b"}`}},
	{"documents of YAML are items", "yaml", "a: 1\n---\n- 2\n---\n---\nx\n", "", []string{`{"a":1}`, "[2]", `"x"`}},
	{"a path selects from each document", "yaml", "items: [1, 2]\n---\nitems: [3]\n", "$.items[*]", []string{"1", "2", "3"}},
	{"aliases are followed", "yaml", "- &x {a: 1}\n- {<<: *x, b: 2}\n", "", []string{`{"a":1}`, `{"b":2,"a":1}`}},
	{"no YAML is no items", "yaml", "# nothing\n", "", nil},
	{"each value of JSONL is an item", "jsonl", "[1]\n2\n", "", []string{"[1]", "2"}},
	{"JSON gives its elements", "json", "[1e400,\n1.10]", "", []string{"1e400", "1.10"}},
	{"what is not told is sniffed", "", "x\n1\n", "", []string{`"x"`, "1"}},
	{"sniffed JSON with a path", "", `{"a":[1,2]}`, "$.a[*]", []string{"1", "2"}},
	{"nothing sniffed is nothing", "", "", "", nil},
}

func TestEachFormatIsTheSameFromEachSource(t *testing.T) {
	for _, c := range formatCases {
		e := folder(t, map[string]string{"data": c.text})
		bad := c.name == "tabs part fields" // a quote inside a field is an error
		for name, in := range map[string]workflow.Input{
			"file": {File: []string{"data"}}, "command": {Command: "cat data"}, "glob": {Glob: []string{"d*"}}, "stdin": {Stdin: true},
		} {
			if in.Format = c.format; in.Glob != nil && in.Format == "" {
				continue // the names are meant
			}
			e.Stdin = iotest.OneByteReader(strings.NewReader(c.text))
			got, err := selectItems(&workflow.Map{Input: in, JSONPath: workflow.Text{Value: c.path}}, e)
			if (err != nil) != bad {
				t.Errorf("%s, %s: %v", c.name, name, err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s, %s: got + want -\n%s", c.name, name, diff)
			}
		}
	}
}

// The Texts of each format are what its reader returns, by the items in formatCases.
func TestEachFormatHasTheTextsThatItsReaderGives(t *testing.T) {
	for _, name := range workflow.Formats() {
		got, count := workflow.TextItems, 0
		for _, c := range formatCases {
			if c.format != name || c.path != "" {
				continue
			}
			for _, item := range c.want {
				var text string
				var fields map[string]string
				count++
				switch {
				case json.Unmarshal([]byte(item), &text) == nil && got == workflow.TextItems:
				case json.Unmarshal([]byte(item), &fields) == nil && (got == workflow.TextFields || count == 1):
					got = workflow.TextFields
				default:
					got = workflow.NoTexts
				}
			}
		}
		if count == 0 {
			t.Errorf("%s: formatCases has no item in this format", name)
		} else if want := workflow.FormatNamed(name).Texts; got != want {
			t.Errorf("%s: the items of formatCases have Texts %d, the table says %d", name, got, want)
		}
	}
}

func TestTheNameOfAFileTellsItsFormat(t *testing.T) {
	e := folder(t, map[string]string{
		"a.csv": "x\n1\n", "a.TSV": "x\ty\n1\t2\n", "a.yml": "[1]", "a.ndjson": "[1]\n", "a.txt": "1\nx\n", "b.csv": "[1]",
	})
	for file, want := range map[string][]string{
		"a.csv": {`{"x":"1"}`}, "a.TSV": {`{"x":"1","y":"2"}`}, "a.yml": {"1"}, "a.ndjson": {"[1]"}, "a.txt": {"1", `"x"`}, "b.csv": nil,
	} {
		got, err := selectItems(&workflow.Map{Input: workflow.Input{Text: file}}, e)
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: got + want -\n%s", file, diff)
		}
	}
}

func TestBadDataIsToldWithItsPlace(t *testing.T) {
	for _, c := range []struct{ format, text, want string }{
		{"csv", "a,b\n1,2\n1\n", "line 3, column 1: row has a different number of fields than the header"},
		{"csv", "a,b\n1,x\"y\n", "line 2, column 4: unescaped quote in a field: quote the field and double the quotes in it"},
		{"csv", "a\n\"x\n", "line 2, column 4: a quoted field is not closed, or text follows its closing quote"},
		{"csv", "a,a\n", `line 1, column 3: duplicate column name "a"`},
		{"csv", "a,b\nx,\xff\n", "line 2, column 3: invalid UTF-8"},
		{"csv", "\xff\n", "line 1, column 1: invalid UTF-8"},
		{"lines", "ok\n\xff\n", "byte 3: not valid UTF-8"},
		{"nul", "ok\x00a\xff\x00", "byte 4: not valid UTF-8"},
		{"yaml", "a: 1\nb: [\n", "not YAML: line 2: did not find expected node content"},
		{"yaml", "a: 1\n---\nb: .inf\n", "line 3, column 4: .inf is not a JSON number: quote it"},
		{"yaml", "a: &a [*a]\n", `line 1, column 8: alias "a" contains itself`},
	} {
		in := workflow.Input{Command: "cat data", Format: c.format}
		_, err := selectItems(&workflow.Map{Input: in}, folder(t, map[string]string{"data": c.text}))
		if want := "output of the input command: " + c.want; err == nil || err.Error() != want {
			t.Errorf("%s %q\ngot  %v\nwant %s", c.format, c.text, err, want)
		}
	}
}

func TestAGlobGivesSortedNames(t *testing.T) {
	e := folder(t, map[string]string{"b.go": "", "a.go": "", "a-b.go": "", ".hidden.go": "", "c.txt": "", "x y.go": ""})
	for _, name := range []string{"src/deep", "src/.git", "src.d"} {
		if err := os.MkdirAll(filepath.Join(e.Dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(e.Dir, name, "z.go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"loop": ".", "src/link.go": "deep/z.go", "src/broken.go": "nothing"} {
		if err := os.Symlink(to, filepath.Join(e.Dir, link)); err != nil {
			t.Skip(err)
		}
	}
	for pattern, want := range map[string][]string{
		"*.go":                          {`"a-b.go"`, `"a.go"`, `"b.go"`, `"x y.go"`},
		"./{b,a,[ab]}.go":               {`"a.go"`, `"b.go"`},
		"**/z.go":                       {`"src.d/z.go"`, `"src/deep/z.go"`},
		"src/**/*.go":                   {`"src/deep/z.go"`, `"src/link.go"`},
		"src/.git/*":                    {`"src/.git/z.go"`},
		".*.go":                         {`".hidden.go"`},
		"none*":                         nil,
		"none/*":                        nil,
		"src":                           nil,
		"src/../c.txt":                  {`"c.txt"`},
		filepath.Join(e.Dir, "src.d/*"): {`"` + filepath.Join(e.Dir, "src.d/z.go") + `"`},
	} {
		got, err := selectItems(&workflow.Map{Input: workflow.Input{Glob: []string{pattern}}}, e)
		if err != nil {
			t.Errorf("%s: %v", pattern, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: got + want -\n%s", pattern, diff)
		}
	}
	for _, pattern := range []string{"[a", "{a,b", `a\`} {
		if got := CheckInput(&workflow.Map{Input: workflow.Input{Glob: []string{pattern}}}, e); len(got) != 1 {
			t.Errorf("%s: got %v, want a problem", pattern, got)
		}
	}
}

func TestAFileThatCannotBeReadInAGlobIsNamed(t *testing.T) {
	e := folder(t, map[string]string{"a.csv": "x\n1\n", "b.csv": "x\n1,2\n"})
	got, err := selectItems(&workflow.Map{Input: workflow.Input{Glob: []string{"*.csv"}, Format: "csv"}}, e)
	if want := "b.csv: line 2, column 1: row has a different number of fields than the header"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if diff := cmp.Diff([]string{`{"x":"1"}`}, got); diff != "" {
		t.Errorf("got + want -\n%s", diff)
	}
}

func TestAReadOfStandardInputCanBeCalledOff(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = in.Close(), out.Close() }()
	if _, err := io.WriteString(out, "one\n"); err != nil {
		t.Fatal(err)
	}
	count := 0
	for it, err := range Select(t.Context(), &workflow.Map{Input: workflow.Input{Stdin: true}}, Env{Stdin: in}) {
		if err != nil || string(it.Data) != `"one"` {
			t.Errorf("got %s, %v, want one", it.Data, err)
		}
		count++
		break
	}
	if count != 1 {
		t.Errorf("got %d items, want 1 while the pipe is open", count)
	}
}

func TestAStopEndsTheWaitForStandardInput(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = in.Close(), out.Close() }()
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	var last error
	for _, err := range Select(ctx, &workflow.Map{Input: workflow.Input{Stdin: true}}, Env{Stdin: in}) {
		last = err
	}
	if !errors.Is(last, stop) {
		t.Errorf("got %v, want %v", last, stop)
	}
}

func FuzzRows(f *testing.F) {
	f.Add("a,b\n1,\"x\ny\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		fd := &peekReader{r: strings.NewReader(text)}
		_ = fd.read("csv", path{}, func(raw []byte) error {
			if !rawjson.Valid(raw) {
				t.Errorf("%q: got %q, which is no JSON", text, raw)
			}
			return nil
		})
	})
}

func FuzzLines(f *testing.F) {
	f.Add("a\n {}\r\n[1\n2]", true)
	f.Fuzz(func(t *testing.T, text string, sniffed bool) {
		format := map[bool]string{true: "", false: "lines"}[sniffed]
		fd := &peekReader{r: iotest.HalfReader(strings.NewReader(text))}
		count := 0
		err := fd.read(format, path{}, func(raw []byte) error {
			if count++; !rawjson.Valid(raw) {
				t.Errorf("%q: got %q, which is no JSON", text, raw)
			}
			return nil
		})
		if format == "lines" && err == nil && count > strings.Count(text, "\n")+1 {
			t.Errorf("%q: got %d items", text, count)
		}
	})
}

func FuzzJSONL(f *testing.F) {
	f.Add("{\"a\":1.10}\n\n[ 2 ]3")
	blankless := strings.NewReplacer(" ", "", "\n", "", "\t", "", "\r", "")
	f.Fuzz(func(t *testing.T, text string) {
		fd := &peekReader{r: iotest.HalfReader(strings.NewReader(text))}
		_ = fd.read("jsonl", path{}, func(raw []byte) error {
			if !rawjson.Valid(raw) || !strings.Contains(blankless.Replace(text), blankless.Replace(string(raw))) {
				t.Errorf("%q: got %q", text, raw)
			}
			return nil
		})
	})
}
