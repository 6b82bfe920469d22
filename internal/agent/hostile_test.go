package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"prodigy/internal/rawjson"
	"prodigy/internal/testenv"
	"prodigy/internal/workflow"
)

// hostileValues are values that try to be something else than data: those of the corpus of package template,
// and some that are made for documents and paths.
func hostileValues(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile("../shell/template/testdata/hostile.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Value *string `json:"value"`
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	values := []string{
		`x", "admin": true, "y": "`, `x"}], "admin": [{"y": "`, `\`, `\"`, `\\"`, `"`, "1, \"admin\": true", "admin: true", "x\nadmin: true",
		"x\n---\nadmin: true", "- a", "? a", "[a", "{a: b}", "!!binary x", "!tag x", "&a x", "*a", "<<: x", "<<", "# x", "x # y", "|", ">", "|2\n  x",
		"\tx", " x", "x ", "\n x", "\n\n", "x\r\ny", "\u2028x", "\u0085", "\ufeff", "%YAML 1.1", "@x", "`x`", "null", "~", "yes", "0x1f", "1e9",
		"true", "..", ".", "a:", ": a", "PRODIGYVALUE0Z", "${item.v}", "...", "---", "'", "''", `"" ""`, "🙂", "\x01", "\x7f",
	}
	for _, c := range cases {
		if c.Value != nil && !slices.Contains(values, *c.Value) {
			values = append(values, *c.Value)
		}
	}
	return values
}

// filled runs a write_file step with this content for the item {"v": value}, and returns the file.
func filled(t *testing.T, dir, value, content string, format workflow.FileFormat) (string, *Failure) {
	t.Helper()
	a := ofItem(workflow.Step{WriteFile: &workflow.WriteFile{
		Path: workflow.Text{Value: "file"}, Content: workflow.Text{Value: content}, Format: format,
	}})
	a.Dir = dir
	a.Item = slices.Concat([]byte(`{"v":`), rawjson.Of(value), []byte("}"))
	o := execute(t, local(t), a)
	data, _ := os.ReadFile(filepath.Join(dir, "file"))
	return string(data), o.Failure
}

// A document with a value in it has the keys that were written and no others, and in quotes the value is itself.
func TestNoValueChangesADocument(t *testing.T) {
	contents := map[workflow.FileFormat][]string{
		workflow.JSONFile: {`{"a": "${item.v}", "b": 1}`, `{"a": ${item.v}, "b": 1}`, `{"a": "<${item.v}>", "b": 1}`},
		workflow.YAMLFile: {
			"a: \"${item.v}\"\nb: 1\n", "a: '${item.v}'\nb: 1\n", "a: ${item.v}\nb: 1\n", "a: <${item.v}>\nb: 1\n", "a: |\n  ${item.v}\nb: 1\n",
			"a: >-\n  ${item.v}\nb: 1\n", "{a: ${item.v}, b: 1}\n", "{a: \"${item.v}\", b: 1}\n", "# ${item.v}\na: x # ${item.v}\nb: 1\n",
		},
	}
	runs := 0
	n := testenv.OneIn(24, 4)
	for i, value := range hostileValues(t) {
		if strings.ContainsRune(value, 0) || !utf8.ValidString(value) || len(value) > 10_000 {
			continue
		}
		for format, all := range contents {
			for j, content := range all {
				if (i+j)%n != 0 {
					continue
				}
				runs++
				got, failure := filled(t, t.TempDir(), value, content, format)
				if failure != nil {
					if failure.Type != "template" {
						t.Errorf("%q in %s: got %v", value, content, failure)
					}
					continue // it cannot be written, and nothing was
				}
				checkDocumentOf(t, format, got, value, content)
			}
		}
	}
	t.Logf("%d runs", runs)
}

func checkDocumentOf(t *testing.T, format workflow.FileFormat, got, value, content string) {
	t.Helper()
	var v map[string]any
	err := yaml.Unmarshal([]byte(got), &v)
	if format == workflow.JSONFile {
		v = nil
		err = json.Unmarshal([]byte(got), &v)
	}
	if err != nil || len(v) != 2 {
		t.Errorf("%q in %s: got %q, which is %v, %v", value, content, got, v, err)
		return
	}
	if text, quoted := v["a"].(string); strings.Contains(content, `"${item.v}"`) && (!quoted || text != value) {
		t.Errorf("%q in %s: got %q", value, content, v["a"])
	}
}

func TestAQuotedValueIsItselfInEveryDocument(t *testing.T) {
	for _, test := range []struct {
		format  workflow.FileFormat
		content string
	}{{workflow.JSONFile, `{"a": "${item.v}"}`}, {workflow.YAMLFile, "a: '${item.v}'\n"}} {
		for _, value := range []string{"x\", \"admin\": true, \"y\": \"", "a\nb", "it's", `\`, "true", "# x"} {
			got, failure := filled(t, t.TempDir(), value, test.content, test.format)
			var v map[string]any
			if err := yaml.Unmarshal([]byte(got), &v); failure != nil || err != nil || v["a"] != value {
				t.Errorf("%q in %s: got %q, %v, %v", value, test.content, got, failure, err)
			}
		}
	}
}

// Whatever a value is as a path, nothing appears outside of the working directory, and what a link there leads to stays as it is.
func TestNoPathLeadsOutOfTheWorkingDirectory(t *testing.T) {
	base := t.TempDir()
	outside := filepath.Join(base, "outside")
	dir := filepath.Join(base, "a", "b")
	for _, d := range []string{outside, dir} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	keep := filepath.Join(outside, "kept")
	if err := os.WriteFile(keep, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"link": outside, "up": "..", "file": keep, "chain": "link"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Skip(err)
		}
	}
	paths := append(hostileValues(t), "../x", "../../outside/kept", outside+"/new", "/tmp/x", "link/new", "link/kept", "up/new", "up/../../outside/kept",
		"chain/new", "x/../../y", "./../x", "link/../../../outside/new", "file", "x/..", "up/up/new", strings.Repeat("../", 30)+"tmp/x", "~/x", "C:\\x", "a\\..\\..\\x")
	for _, path := range paths {
		a := ofItem(workflow.Step{WriteFile: &workflow.WriteFile{
			Path: workflow.Text{Value: "${item.v}"}, Content: workflow.Text{Value: "overwritten"}, CreateDirs: true,
		}})
		a.Dir = dir
		a.Item = slices.Concat([]byte(`{"v":`), rawjson.Of(path), []byte("}"))
		execute(t, local(t), a)
	}
	want := []string{".", "a", "a/b", "outside", "outside/kept"}
	var got []string
	err := filepath.WalkDir(base, func(path string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(base, path)
		if strings.HasPrefix(filepath.ToSlash(rel), "a/b/") {
			if strings.HasPrefix(d.Name(), ".prodigy-") {
				t.Errorf("%s is left", rel)
			}
			return nil
		}
		got = append(got, filepath.ToSlash(rel))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "files outside", got, want)
	if data, err := os.ReadFile(keep); err != nil || string(data) != "kept" {
		t.Errorf("the file that a link leads to: got %q, %v", data, err)
	}
}

// Every element of a list that a command prints reaches the shell as it is, in each place of a script, also with many at once.
func TestNoElementOfAForeachBecomesCode(t *testing.T) {
	dir := t.TempDir()
	var values []string
	for i, value := range hostileValues(t) {
		if i%testenv.OneIn(12, 4) == 0 && utf8.ValidString(value) && !strings.ContainsRune(value, 0) && len(value) < 50_000 {
			values = append(values, value)
		}
	}
	list, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "list.json"), list, 0o600); err != nil {
		t.Fatal(err)
	}
	scripts := []string{
		"printf '%s.' ${item}", `printf '%s.' "${item}"`, "printf '%s.' '${item}'", "cat <<EOF\n${item}.\nEOF", "cat <<'EOF'\n${item}.\nEOF",
		`x=${item}; printf '%s.' "$x"`, `sh -c "printf '%s.' ${item}"`, `printf '%s.' "$(printf '%s.' ${item})"`,
	}
	for _, script := range scripts {
		a := ofItem(workflow.Step{Foreach: &workflow.Foreach{
			Input: workflow.Elements{Command: &workflow.Text{Value: "cat list.json"}}, Do: []workflow.Step{shellStep(script)}, Parallel: 4, Continue: true,
		}})
		a.Dir = dir
		o := execute(t, local(t), a)
		var rows []row
		if err := json.Unmarshal([]byte(o.Output), &rows); err != nil || o.Failure != nil || len(rows) != len(values) {
			t.Fatalf("%s: got %d rows, %v, %v", script, len(rows), err, o.Failure)
		}
		for i, one := range rows {
			want := values[i] + "."
			if strings.Contains(script, "$(") {
				want += "."
			}
			if len(one.Output) < maxRows/len(values) && one.Output != want {
				t.Errorf("%s: got %q (%s), want %q", script, one.Output, one.Error, want)
			}
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("got %v in the directory, %v, want the list only", left, err)
	}
	t.Logf("%d runs", len(scripts)*len(values))
}
