package shell

import (
	"os/exec"
	"testing"
)

func TestNames(t *testing.T) {
	for s, want := range map[string]int{"": 0, "a": 1, "_a9Z": 4, "9a": 0, "a-b": 1, "é": 0, "aé": 1, "PATH=x": 4, "a b": 1} {
		if got := NameLen(s); got != want {
			t.Errorf("NameLen(%q) = %d, want %d", s, got, want)
		}
		if got := IsName(s); got != (want > 0 && want == len(s)) {
			t.Errorf("IsName(%q) = %t", s, got)
		}
	}
}

func TestQuoteLeavesPlainWords(t *testing.T) {
	for s, want := range map[string]string{
		"": "''", "item_1": "item_1", "src/a-b.go": "src/a-b.go", "a b": "'a b'", "it's": `'it'\''s'`, "~": "'~'", "a=b": "'a=b'", "é": "'é'", "#x": "'#x'",
	} {
		if got := Quote(s); got != want {
			t.Errorf("Quote(%q) = %s, want %s", s, got, want)
		}
	}
}

// Every byte but NUL comes out of a shell as it went in.
func TestAShellReadsAQuotedWordAsItWas(t *testing.T) {
	all := make([]byte, 0, 255)
	for c := 1; c < 256; c++ {
		all = append(all, byte(c))
	}
	for _, s := range []string{string(all), "", "''", `\`, "-n", "$(id)", "a\n"} {
		out, err := exec.Command("sh", "-c", "printf %s "+Quote("x"+s)).Output()
		if err != nil || string(out) != "x"+s {
			t.Errorf("%q: got %q, %v", s, out, err)
		}
	}
}

func FuzzQuote(f *testing.F) {
	f.Add("it's")
	f.Fuzz(func(t *testing.T, s string) {
		if inner, ok := unquote(Quote(s)); !ok || inner != s {
			t.Errorf("%q is quoted as %s, which reads as %q", s, Quote(s), inner)
		}
	})
}

// unquote reads a word of plain characters, single quotes and \' only.
func unquote(word string) (string, bool) {
	var text []byte
	open := false
	for i := 0; i < len(word); i++ {
		switch c := word[i]; {
		case c == '\'':
			open = !open
		case !open && c == '\\':
			if i++; i == len(word) {
				return "", false
			}
			text = append(text, word[i])
		case !open && Quote(string(rune(c))) != string(rune(c)):
			return "", false
		default:
			text = append(text, c)
		}
	}
	return string(text), !open
}
