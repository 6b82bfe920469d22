package items

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ohler55/ojg/jp"
	"github.com/ohler55/ojg/oj"

	"prodigy/internal/rawjson"
	"prodigy/internal/workflow"
)

// folder makes a directory with these files.
func folder(t testing.TB, files map[string]string) Env {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Env{Dir: dir, Environ: os.Environ()}
}

// selectItems returns the data of the items and the error that ended the selection.
func selectItems(m *workflow.Map, e Env) (got []string, err error) {
	if m.OnEmpty == "" {
		m.OnEmpty = workflow.EmptyIsOK
	}
	for it, err := range Select(context.Background(), m, e) {
		if err != nil {
			return got, err
		}
		if it.Index != len(got) || it.ID != fmt.Sprintf("item_%d", it.Index) {
			return got, fmt.Errorf("got item %s with index %d, want number %d", it.ID, it.Index, len(got))
		}
		got = append(got, string(it.Data))
	}
	return got, nil
}

func TestFilesGiveTheirItems(t *testing.T) {
	for _, c := range []struct {
		name, file, text, path string
		want                   []string
	}{
		{"an array gives its elements", "x.json", "[1.10, {\"a\" : [ 1 ]},\n null]", "", []string{"1.10", `{"a":[1]}`, "null"}},
		{"an object is one item", "x.json", `{"a": " b "}`, "", []string{`{"a":" b "}`}},
		{"a scalar is one item", "x.json", ` "a" `, "", []string{`"a"`}},
		{"an empty array gives nothing", "x.json", "[]", "", nil},
		{"values one after the other are items", "x.json", "{\"a\":1}\n{\"a\":2}\n\n3 {}", "", []string{`{"a":1}`, `{"a":2}`, "3", "{}"}},
		{"values without anything between are items", "x.json", `{"a":1}{"a":2}[]`, "", []string{`{"a":1}`, `{"a":2}`, "[]"}},
		{"arrays one after the other are items", "x.json", "[1]\n[2,3]\n", "", []string{"[1]", "[2,3]"}},
		{"a long array gives its elements", "x.json", "[\n1,\n2]\n", "", []string{"1", "2"}},
		{"each line of JSONL is an item", "x.jsonl", "[1,2]\n", "", []string{"[1,2]"}},
		{"empty JSONL has no items", "x.ndjson", "\n", "", nil},
		{"a path selects", "x.json", `{"items":[{"id":1},{"id":2}]}`, "$.items[*].id", []string{"1", "2"}},
		{"a path selects from each value", "x.json", "{\"a\":1}\n{\"a\":2}", "$.a", []string{"1", "2"}},
		{"blanks around a path do not matter", "x.json", `{"a":1}`, " $.a\n", []string{"1"}},
		{"a byte order mark is passed over", "x.json", "\uFEFF[1]", "", []string{"1"}},
		{"names may stand twice", "x.json", `[{"a":1,"a":2}]`, "", []string{`{"a":1,"a":2}`}},
		{"escapes stay as they are", "x.json", `["\u00e9\/"]`, "$[*]", []string{`"\u00e9\/"`}},
	} {
		m := &workflow.Map{Input: workflow.Input{File: []string{c.file}}, JSONPath: workflow.Text{Value: c.path}}
		got, err := selectItems(m, folder(t, map[string]string{c.file: c.text}))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: got + want -\n%s", c.name, diff)
		}
	}
}

func TestCommandsGiveTheirItems(t *testing.T) {
	for _, c := range []struct {
		name, output, path string
		want               []string
	}{
		{"lines are text", "main.go\n\n  a b\nlast", "", []string{`"main.go"`, `"  a b"`, `"last"`}},
		{"a line that is JSON is that value", "1.10\ntrue\n\"x\"\n007\nnull\n{\"a\": 1}\r\nx\r\n", "", []string{"1.10", "true", `"x"`, `"007"`, "null", `{"a":1}`, `"x"`}},
		{"an array gives its elements", "\n[1, \"a\"]\n", "", []string{"1", `"a"`}},
		{"an array over lines gives its elements", "[\n {\"a\":1},\n 2\n]\n", "", []string{`{"a":1}`, "2"}},
		{"arrays on lines are items", "[1]\n[2]\n", "", []string{"[1]", "[2]"}},
		{"objects over lines are items", "{}\n{\n \"a\": 1\n}\n{\"b\":\n2}\n", "", []string{"{}", `{"a":1}`, `{"b":2}`}},
		{"text after an object over lines is text", "{\n\"a\":1}\ndone {\n[x]\n", "", []string{`{"a":1}`, `"done {"`, `"[x]"`}},
		{"objects and text may alternate", "{\n\"a\":1}\n{not json}\n{\n\"a\":2}\n", "", []string{`{"a":1}`, `"{not json}"`, `{"a":2}`}},
		{"what only begins like JSON is text", "[INFO] go\n[2026-11-20] x\n{a}\n[1] x", "", []string{`"[INFO] go"`, `"[2026-11-20] x"`, `"{a}"`, `"[1] x"`}},
		{"a path selects", `{"items":[{"id":1},{"id":2}]}`, "$.items[*].id", []string{"1", "2"}},
		{"a path selects from each line", "{\"a\":1}\n{\"a\":2}\n", "$.a", []string{"1", "2"}},
		{"no output is no items", "", "", nil},
		{"no output is no items for a path", "", "$[*]", nil},
	} {
		m := &workflow.Map{Input: workflow.Input{Command: "cat data"}, JSONPath: workflow.Text{Value: c.path}}
		got, err := selectItems(m, folder(t, map[string]string{"data": c.output}))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: got + want -\n%s", c.name, diff)
		}
	}
}

func TestLongLinesOfACommandAreItems(t *testing.T) {
	long := strings.Repeat("x", 3*lookAhead)
	object := `{"a":"` + long + `"}`
	e := folder(t, map[string]string{"data": long + "\n" + object + "\nend\n"})
	got, err := selectItems(&workflow.Map{Input: workflow.Input{Command: "cat data"}}, e)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`"` + long + `"`, object, `"end"`}, got); diff != "" {
		t.Errorf("got + want -\n%.300s", diff)
	}
}

func TestThePipelineFiltersThenSkipsThenCuts(t *testing.T) {
	var list []json.RawMessage
	for i := range 20 {
		list = append(list, json.RawMessage(fmt.Sprint(i)))
	}
	two, none := 2, 0
	for _, c := range []struct {
		m    workflow.Map
		want []string
	}{
		{workflow.Map{Filter: workflow.Text{Value: "item >= 10"}, Offset: 3, MaxItems: &two}, []string{"13", "14"}},
		{workflow.Map{Filter: workflow.Text{Value: "item >= 18"}}, []string{"18", "19"}},
		{workflow.Map{Offset: 19, MaxItems: &two}, []string{"19"}},
		{workflow.Map{Offset: 21}, nil},
		{workflow.Map{MaxItems: &none}, nil},
		{workflow.Map{JSONPath: workflow.Text{Value: "$[-1]"}}, []string{"19"}},
	} {
		c.m.Input.Items = list
		got, err := selectItems(&c.m, Env{})
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%+v: got + want -\n%s", c.m, diff)
		}
	}
}

func TestTextIsAFileOrACommandButNeverAGuess(t *testing.T) {
	e := folder(t, map[string]string{"a b.json": "[1]", "x.json": "[2]"})
	for text, want := range map[string]string{
		"a b.json":                     "1",
		"x.json":                       "2",
		filepath.Join(e.Dir, "x.json"): "2",
		"echo 3":                       "3",
		"echo $((1+3))|cat":            "4",
		"cat<x.json":                   "2",
		"x.jso?":                       `"x.json"`,
		"{x,y}.json":                   `"x.json"`,
		"cat x.json/../x.json 2>/dev/null || echo " + strings.Repeat("9", 300): strings.Repeat("9", 300),
	} {
		got, err := selectItems(&workflow.Map{Input: workflow.Input{Text: text}}, e)
		if err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("%s: got %v, %v, want %s", text, got, err, want)
		}
	}
	if got, err := selectItems(&workflow.Map{Input: workflow.Input{Text: "pwd"}}, e); err != nil || len(got) != 1 {
		t.Errorf("a program: got %v, %v, want its output", got, err)
	}
	if _, err := selectItems(&workflow.Map{Input: workflow.Input{Text: "no-such-program"}}, e); err == nil || !strings.Contains(err.Error(), "no program of that name") {
		t.Errorf("a word that is nothing: got %v", err)
	}
}

func TestErrorsNameThePlaceInPlainWords(t *testing.T) {
	e := folder(t, map[string]string{
		"bad.json": "[1,\n 2,\n x]", "short.json": "{\"items\": [1,\n", "utf8.json": "[\"a\",\n\"\xff\"]", "empty.json": " \n",
		"text.csv": "id,name\n", "latin": "ok\nh\xe9\n",
	})
	if err := os.Mkdir(filepath.Join(e.Dir, "dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		input workflow.Input
		path  string
		items int
		want  string
	}{
		{workflow.Input{File: []string{"bad.json"}}, "", 2, "bad.json: line 3, column 2 (byte 9): not JSON: invalid character 'x' at start of value"},
		{workflow.Input{File: []string{"bad.json"}}, "$[*]", 2, "bad.json: line 3, column 2 (byte 9): not JSON: invalid character 'x' at start of value"},
		{workflow.Input{File: []string{"short.json"}}, "$.items[*]", 1, "short.json: line 2, column 1 (byte 14): unexpected end of JSON"},
		{workflow.Input{File: []string{"short.json"}}, "", 0, "short.json: line 2, column 1 (byte 14): unexpected end of JSON"},
		{workflow.Input{File: []string{"utf8.json"}}, "", 1, "utf8.json: line 2, column 2 (byte 7): not valid UTF-8"},
		{workflow.Input{File: []string{"empty.json"}}, "", 0, "input file empty.json: is empty, not JSON"},
		{workflow.Input{File: []string{"text.csv"}, Format: "json"}, "", 0, "text.csv: line 1, column 1 (byte 0): not JSON: invalid character 'i' at start of value"},
		{workflow.Input{File: []string{"dir"}}, "", 0, "input file dir: is a directory"},
		{workflow.Input{File: []string{"none.json"}}, "", 0, "input file none.json: file not found"},
		{workflow.Input{Text: "none.json"}, "", 0, "input file none.json: file not found"},
		{workflow.Input{Command: "cat latin"}, "", 1, "output of the input command: byte 4: not valid UTF-8"},
		{workflow.Input{Command: "echo x"}, "$.a", 0, "output of the input command: byte 0: not JSON: invalid character 'x' at start of value"},
		{workflow.Input{Command: "printf '[1,\n2'"}, "", 2, "output of the input command: byte 5: unexpected end of JSON"},
		{workflow.Input{Command: "echo 1; echo oh >&2; echo dear >&2; exit 3"}, "", 1, "the input command failed with exit code 3: oh; dear"},
		{workflow.Input{Command: "printf '[1,'; exit 4"}, "$[*]", 1, "the input command failed with exit code 4"},
		{workflow.Input{Command: "echo '[1]'; exit 4"}, "", 1, "the input command failed with exit code 4"},
		{workflow.Input{Command: "kill -9 $$"}, "", 0, "the input command was killed by SIGKILL"},
	} {
		got, err := selectItems(&workflow.Map{Input: c.input, JSONPath: workflow.Text{Value: c.path}}, e)
		if err == nil || err.Error() != c.want {
			t.Errorf("%+v %s\ngot  %v\nwant %s", c.input, c.path, err, c.want)
		}
		if len(got) != c.items {
			t.Errorf("%+v %s: got %d items before the error, want %d", c.input, c.path, len(got), c.items)
		}
	}
}

// The commands here wait for a file that is only made when the first item has arrived.
func TestTheOutputOfACommandStreams(t *testing.T) {
	const wait = "; while [ ! -e go ]; do sleep 0.01; done; "
	for _, c := range []struct{ command, path string }{
		{"echo '{\"id\":1}'" + wait + "echo '{\"id\":2}'", ""},
		{"echo '{\"id\":1}'" + wait + "echo '{\"id\":2}'", "$.id"},
		{"echo one" + wait + "echo two", ""},
		{"echo '['; echo '{\"id\":1},'" + wait + "echo '{\"id\":2}]'", ""},
		{"echo '{\"items\":[{\"id\":1},'" + wait + "echo '{\"id\":2}]}'", "$.items[*].id"},
		{"echo '{'; echo '\"id\":1}'" + wait + "echo '{\"id\":2}'", ""},
	} {
		e := folder(t, nil)
		count := 0
		for _, err := range Select(t.Context(), &workflow.Map{Input: workflow.Input{Command: c.command}, JSONPath: workflow.Text{Value: c.path}}, e) {
			if err == nil {
				err = os.WriteFile(filepath.Join(e.Dir, "go"), nil, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			count++
		}
		if count != 2 {
			t.Errorf("%s: got %d items, want 2", c.command, count)
		}
	}
}

// readOnce fails when it is read again before the first item was taken.
type readOnce struct {
	first, rest io.Reader
	taken       bool
}

func (r *readOnce) Read(p []byte) (int, error) {
	n, err := r.first.Read(p)
	if err != io.EOF {
		return n, err
	}
	if !r.taken {
		return 0, errors.New("read on before the first item was taken")
	}
	return r.rest.Read(p)
}

func TestTheFirstItemComesBeforeTheRestOfTheFileIsRead(t *testing.T) {
	for src, doc := range map[string][2]string{
		"$.items[*]":         {`{"other": 1, "items": [{"id": 1},`, ` {"id": 2}]}`},
		"$.items[*].id":      {`{"items": [{"id": 1}`, `, {"id": 2}]}`},
		"$.items[?@.id > 0]": {`{"items": [{"id": 1}`, `, {"id": 2}]}`},
	} {
		p, err := parsePath(src)
		if err != nil {
			t.Fatal(err)
		}
		count := 0
		r := &readOnce{first: strings.NewReader(doc[0]), rest: strings.NewReader(doc[1])}
		f := &peekReader{r: r}
		err = f.each(p, p, func([]byte) error {
			r.taken = true
			count++
			return nil
		})
		if err != nil || count != 2 {
			t.Errorf("%s: got %d items, %v, want 2", src, count, err)
		}
	}
}

func TestACommandEndsWhenNoMoreIsWanted(t *testing.T) {
	three := 3
	m := &workflow.Map{Input: workflow.Input{Command: "echo $$ >pid; exec yes"}, MaxItems: &three}
	before := runtime.NumGoroutine()
	e := folder(t, nil)
	got, err := selectItems(m, e)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`"y"`, `"y"`, `"y"`}, got); diff != "" {
		t.Errorf("got + want -\n%s", diff)
	}
	m = &workflow.Map{Input: workflow.Input{Command: "kill -0 $(cat pid) 2>/dev/null && echo lives || echo gone"}}
	if got, err := selectItems(m, e); err != nil || len(got) != 1 || got[0] != `"gone"` {
		t.Errorf("got %v, %v, want the command gone", got, err)
	}
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before && time.Now().Before(end); { // they may have their last instructions before them
		runtime.Gosched()
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("got %d goroutines, want the %d from before", after, before)
	}
}

func TestSelectEndsWithItsContext(t *testing.T) {
	stop := errors.New("stop")
	for _, command := range []string{"yes", "echo y; sleep 1000"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		var last error
		for _, err := range Select(ctx, &workflow.Map{Input: workflow.Input{Command: command}}, folder(t, nil)) {
			cancel(stop)
			last = err
		}
		cancel(nil)
		if !errors.Is(last, stop) {
			t.Errorf("%s: got %v, want %v", command, last, stop)
		}
	}
}

func TestAFileInWhichNothingIsFoundIsNotReadOnAfterAStop(t *testing.T) {
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	e := folder(t, map[string]string{"x.json": "[1,2,3"})
	for _, err := range Select(ctx, &workflow.Map{Input: workflow.Input{File: []string{"x.json"}}, JSONPath: workflow.Text{Value: "$[7]"}}, e) {
		if !errors.Is(err, stop) {
			t.Errorf("got %v, want %v", err, stop)
		}
		return
	}
	t.Error("got no error")
}

func TestAConsumerMayStopAtAnyItem(t *testing.T) {
	e := folder(t, map[string]string{"x.json": "[1,2,3]"})
	for _, in := range []workflow.Input{{File: []string{"x.json"}}, {Command: "cat x.json; sleep 1000"}, {Items: []json.RawMessage{[]byte("1"), []byte("2")}}} {
		for it, err := range Select(t.Context(), &workflow.Map{Input: in, JSONPath: workflow.Text{Value: "$[*]"}}, e) {
			if err != nil || it.Index != 0 {
				t.Errorf("%+v: got item %d, %v, want the first", in, it.Index, err)
			}
			break
		}
	}
}

func TestCheckTellsAllThatIsWrong(t *testing.T) {
	e := folder(t, map[string]string{"x.json": "not looked at"})
	m := &workflow.Map{
		Input:    workflow.Input{Text: "none.json", Pos: workflow.Pos{Line: 3, Col: 10}},
		JSONPath: workflow.Text{Value: "$.items[", Pos: workflow.Pos{Line: 4, Col: 14}},
		Filter:   workflow.Text{Value: "a ==", Pos: workflow.Pos{Line: 5, Col: 11}},
	}
	want := []workflow.Problem{
		{Line: 3, Col: 10, Message: "input file none.json: file not found"},
		{Line: 4, Col: 14, Message: "json_path: invalid JSONPath: not terminated\n  $.items[\n          ^"},
		{Line: 5, Col: 11, Message: "filter: expected a field, value or \"(\", got the end\n  a ==\n      ^"},
	}
	if diff := cmp.Diff(want, append(CheckInput(m, e), Check(m)...)); diff != "" {
		t.Errorf("got + want -\n%s", diff)
	}
	for _, in := range []workflow.Input{{Text: "x.json"}, {File: []string{"x.json"}}, {Command: "rm -f x.json"}, {Text: "rm -f x.json"}, {}} {
		if got := CheckInput(&workflow.Map{Input: in}, e); got != nil {
			t.Errorf("%+v: got %v, want nothing", in, got)
		}
	}
	if _, err := os.Stat(filepath.Join(e.Dir, "x.json")); err != nil {
		t.Error("a command was run")
	}
}

func TestCompactChangesOnlyBlanks(t *testing.T) {
	for _, s := range []string{`{"a" : [ 1.10 , "x \" y\\" , "\\" , { } ] , "b\n":null}`, " 1 ", "[\t]", `"\\\" "`} {
		var want bytes.Buffer
		if err := json.Compact(&want, []byte(s)); err != nil {
			t.Fatal(err)
		}
		if got := string(rawjson.Compact(new([]byte), []byte(s))); got != want.String() {
			t.Errorf("%s: got %s, want %s", s, got, want.String())
		}
	}
}

const benchText = "Some words about this item, as people write them, which go on for a while and then, after a line or two, come to an end."

func BenchmarkSelect(b *testing.B) {
	var doc bytes.Buffer
	doc.WriteString(`{"meta": {"n": 1}, "items": [`)
	for i := range 20_000 {
		if i > 0 {
			doc.WriteString(",\n  ")
		}
		fmt.Fprintf(&doc, `{"id": %d, "score": %d, "name": "item number %d", "tags": ["a", "b"], "price": %d.50, "text": %q}`, i, i%10, i, i, benchText)
	}
	doc.WriteString("]}")
	e := folder(b, map[string]string{"x.json": doc.String()})
	for _, c := range []struct{ name, path, filter string }{
		{"Wildcard", "$.items[*]", ""},
		{"Filter", "$.items[*]", "score >= 5 && name contains '1'"},
		{"PathFilter", "$.items[?@.score >= 5]", ""},
		{"Loaded", "$..items[*]", ""},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(doc.Len()))
			m := &workflow.Map{Input: workflow.Input{File: []string{"x.json"}}, JSONPath: workflow.Text{Value: c.path}, Filter: workflow.Text{Value: c.filter}}
			for b.Loop() {
				for _, err := range Select(b.Context(), m, e) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkOjg is what selection is measured against: the whole document loaded.
func BenchmarkOjg(b *testing.B) {
	doc := []byte(`[` + strings.Repeat(`{"id": 1, "score": 5, "name": "item number 1", "tags": ["a", "b"], "price": 1.50, "text": "`+benchText+`"},`+"\n  ", 20_000) + `0]`)
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		data, err := oj.Load(bytes.NewReader(doc))
		if err != nil || len(jp.MustParseString("$[*]").Get(data)) != 20_001 {
			b.Fatal(err)
		}
	}
}
