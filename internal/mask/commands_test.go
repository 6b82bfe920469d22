package mask

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

var (
	record = flag.Bool("record", false, "run the commands of testdata/commands.txt that are here, and write what they print to testdata/printed.txtar")
	update = flag.Bool("update", false, "write testdata/masked.txtar")
)

// The secrets that the commands print: one line of everything that somebody escapes, one long enough for every
// program to break it, and one of several lines.
const (
	hostile = `pä$s/w"ö'd <+&%\=x;€😀!`
	token   = "ghp_16C7e42F292c6912E7710c838347Ae178B4a.eyJhbGciOiJIUzI1NiJ9~AeI78/+zzQ==_" +
		"0123abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ4567890-tail-of-the-token"
	name = `a file's "é" $x \ name`
	key  = "-----BEGIN KEY-----\nMIIEow\tIBAAKCAQEA'7bq+\nü98/76$54\\32\n-----END KEY-----"
)

func commandSecrets() map[string]string {
	return map[string]string{"SECRET": hostile, "TOKEN": token, "KEY": key, "NAME": name}
}

type printing struct{ name, script string }

// printings returns the commands of the table.
func printings(t *testing.T) (all []printing) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "commands.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		name, script, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if ok && !strings.HasPrefix(line, "#") {
			all = append(all, printing{name, script})
		}
	}
	return all
}

// print runs the command. It is false when a program that it needs is not here.
func (p printing) print(t *testing.T, values map[string]string) (string, bool) {
	t.Helper()
	cmd := exec.Command("bash", "-c", p.script)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	for name, value := range values {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, _ := cmd.Output() // that some fail is their way to print
	program, _, _ := strings.Cut(p.name, " ")
	_, err := exec.LookPath(program)
	known := err == nil || !slices.Contains([]string{"php", "ruby", "zsh", "node", "perl", "tclsh"}, program)
	return string(out), known && len(out) > 0 && !strings.Contains(stderr.String(), "not found")
}

func archive(t *testing.T, name string) map[string]string {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range a.Files {
		files[f.Name] = string(f.Data)
	}
	return files
}

func writeArchive(t *testing.T, name string, texts map[string]string) {
	t.Helper()
	a := new(txtar.Archive)
	for _, p := range printings(t) {
		a.Files = append(a.Files, txtar.File{Name: p.name, Data: []byte(texts[p.name])})
	}
	if err := os.WriteFile(filepath.Join("testdata", name), txtar.Format(a), 0o644); err != nil {
		t.Fatal(err)
	}
}

// What commands in common use print of secrets holds nothing of them that could be read again.
func TestNothingIsLeftInWhatCommandsPrint(t *testing.T) {
	if *record {
		texts := map[string]string{}
		if _, err := os.Stat("testdata/printed.txtar"); err == nil {
			texts = archive(t, "printed.txtar")
		}
		for _, p := range printings(t) {
			if text, ok := p.print(t, commandSecrets()); ok {
				texts[p.name] = text
			}
		}
		writeArchive(t, "printed.txtar", texts)
	}
	printed := archive(t, "printed.txtar")
	m := New([]string{hostile, token, key, name})
	masked := map[string]string{}
	for _, p := range printings(t) {
		masked[p.name] = m.Text(printed[p.name])
		judgeMasked(t, p.name, printed[p.name], masked[p.name], hostile, token, key, name)
	}
	if *update {
		writeArchive(t, "masked.txtar", masked)
	}
	want := archive(t, "masked.txtar")
	for _, p := range printings(t) {
		if got := masked[p.name]; strings.TrimSuffix(got, "\n") != strings.TrimSuffix(want[p.name], "\n") {
			t.Errorf("%s: got %q, want %q", p.name, got, want[p.name])
		}
	}
}

// judgeMasked holds what is left of a text against its secrets.
func judgeMasked(t *testing.T, name, text, masked string, secrets ...string) {
	t.Helper()
	if !strings.Contains(masked, Mark) {
		t.Errorf("%s: nothing is masked in %q", name, text)
		return
	}
	for _, secret := range secrets {
		if how, rest := leak(masked, secret); how != "" {
			t.Errorf("%s: %s gives %q of %q\n%s", name, how, rest, secret, masked)
		}
	}
}
