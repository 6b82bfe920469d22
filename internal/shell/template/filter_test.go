package template

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// filing is a resolver that can make files.
type filing struct {
	values
	dir   string
	count int
}

func (f *filing) File(content string) (string, error) {
	f.count++
	path := filepath.Join(f.dir, "value "+strconv.Itoa(f.count))
	return path, os.WriteFile(path, []byte(content), 0o600)
}

func TestFilters(t *testing.T) {
	dir := t.TempDir()
	doc := `{"v":"a b","empty":"","null":null,"n":"007","neg":-3,"p":"x/y z.go","list":["a b.go","src/c.go","d.txt","deep/er/e.go"],"files":"m.go n.txt src/o.go","q":"it's \"q\" & ü"}`
	tests := []struct{ text, want string }{
		{"${item.v|words}", "<a><b>"},
		{"${item.empty|words}", ""},
		{"${item.q|sh}", `<'it'\''s "q" & ü'>`},
		{"${item.q|json}", `<"it's \"q\" & ü">`},
		{"${item.list|json}", `<["a b.go","src/c.go","d.txt","deep/er/e.go"]>`},
		{"${item.q|url}", "<it%27s%20%22q%22%20%26%20%C3%BC>"},
		{"${item.n|int} ${item.neg|int}", "<7><-3>"},
		{"${item.p|basename}", "<y z.go>"},
		{"${item.missing|basename:-a/b}", "<b>"},
		{"${item.p|dirname} ${item.p|noext} ${item.p|basename|noext} ${item.v|dirname}", "<x><x/y z><y z><.>"},
		{"${item.n|ordinal}", "<8>"},
		{"${item.list[*]|noext}", "<a b><src/c><d><deep/er/e>"},
		{"${item.missing|noext:-a.b/c}", "<a.b/c>"},
		{"${item.missing|noext:-a/.c}${item.missing|noext:-c.}", "<a/c>"},
		{"${item.v|opt} ${item.empty|opt} ${item.null|opt} ${item.missing|opt}", "<a b>"},
		{"${item.missing|opt:-x}", "<x>"},
		{"\"${item.empty|opt}\" '${item.v|opt}'", "<><a b>"},
		{"${item.missing|default:a \\} \\| b} ${item.empty|default:e|basename} ${item.v|default:x}", "<a } | b><e><a b>"},
		{"${item.list|pattern:*.go}", "<a b.go><src/c.go><deep/er/e.go>"},
		{"${item.list[*]|pattern:**/*.go}", "<a b.go><src/c.go><deep/er/e.go>"},
		{"${item.list[*]|pattern:src/?.go}", "<src/c.go>"},
		{"${item.list[*]|pattern:[!a-c]*.go|basename}", "<e.go>"},
		{"${item.files|pattern:*.go}", "<m.go><src/o.go>"},
		{"${item.files|words|pattern:*.txt}", "<n.txt>"},
		{"\"${item.list|pattern:d*|basename}\"", "<d.txt>"},
		{"${item.none|default:a.go b.c|pattern:*.go}", "<a.go>"},
	}
	for _, test := range tests {
		tmpl, err := Compile("p() { for x do printf '<%s>' \"$x\"; done; }; p "+test.text, Options{Names: testNames})
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		inv, err := tmpl.Bind(&filing{values: item(doc), dir: dir})
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		got, err := run(t.Context(), "sh", t.TempDir(), inv)
		if err != nil || string(got) != test.want {
			t.Errorf("%s: got %s (%v), want %s", test.text, got, err, test.want)
		}
	}
}

func TestAValueInAFileIsWholeWhereverItIsNamed(t *testing.T) {
	dir := t.TempDir()
	value := strings.Repeat("it's $(touch pwned)\n", 100_000) + "end\n\n"
	for _, text := range []string{"cat ${item.v|file}", `cat "${item.v|file}"`, "cat '${item.v|file}'", "sh -c 'cat ${item.v|file}'", "cat <<E | xargs -d '\\n' cat\n${item.v|file}\nE", "cat < ${item.v|file}"} {
		tmpl, err := Compile(text, Options{Names: testNames})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		files := &filing{values: values{"item": Text("").With(map[string]Value{"v": Text(value)})}, dir: dir}
		inv, err := tmpl.Bind(files)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, err := run(t.Context(), "sh", t.TempDir(), inv)
		if err != nil || string(got) != value {
			t.Errorf("%s: got %d bytes (%v), want all %d", text, len(got), err, len(value))
		}
	}
	plain, err := CompilePlain("read ${item.v|file}", testNames)
	if err != nil {
		t.Fatal(err)
	}
	text, err := plain.Bind(&filing{values: item(`{"v":"x"}`), dir: dir})
	if data, readErr := os.ReadFile(strings.TrimPrefix(text, "read ")); err != nil || readErr != nil || string(data) != "x" {
		t.Errorf("got %q and %q (%v, %v), want a path to x", text, data, err, readErr)
	}
	if _, err := plain.Bind(item(`{"v":"x"}`)); err == nil || !strings.Contains(err.Error(), "needs a file") {
		t.Errorf("got %v, want an error where no file can be made", err)
	}
}

func TestFiltersThatAreWrittenWrong(t *testing.T) {
	tests := []struct{ text, want string }{
		{"x ${item.v|nope}", "1:3: PS002 unknown filter |nope (known: raw, sh, json, url, int, ordinal, words, basename, dirname, noext, file, opt, pattern, default)"},
		{"x ${item.v|pattern}", "1:3: PS002 the filter |pattern needs an argument: ${item|pattern:…}"},
		{"x ${item.v|default}", "1:3: PS002 the filter |default needs an argument: ${item|default:…}"},
		{"x ${item.v|pattern:[a}", `1:3: PS002 "[a" is not a pattern like *.go or src/**/*.go`},
		{"x ${item.v|default:$HOME}", "1:3: PS002 the argument of |default: is literal; \"$\" is not expanded"},
		{"x --f=${item.v|opt}", "PS027"},
	}
	for _, test := range tests {
		if _, err := Compile(test.text, Options{Names: testNames}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", test.text, err, test.want)
		}
	}
}

func TestEveryFilterIsInTheDocuments(t *testing.T) {
	data, err := os.ReadFile("../../../docs/interpolation.md")
	if err != nil {
		t.Fatal(err)
	}
	missing := slices.DeleteFunc(slices.Clone(filterNames), func(name string) bool {
		return strings.Contains(string(data), `|`+name) || strings.Contains(string(data), `\|`+name)
	})
	if len(missing) > 0 {
		t.Errorf("docs/interpolation.md lacks %v", missing)
	}
}
