package jobs

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prodigy/internal/check"
)

func TestTheLastLineIsFoundHoweverLong(t *testing.T) {
	long := strings.Repeat("x", 600_000)
	for text, want := range map[string]string{
		"": "", "a": "a", "a\n": "a\n", "a\nb": "b", "a\nb\n": "b\n", "\n": "\n",
		"a\n" + long: long, long + "\n" + long + "\n": long + "\n",
	} {
		path := filepath.Join(t.TempDir(), "lines")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer check.Quietly(file.Close)
		b, err := NewBackward(file)
		if err != nil {
			t.Fatal(err)
		}
		got, whole, err := b.Line()
		if whole {
			got = append(got, '\n')
		}
		if err != nil && !errors.Is(err, io.EOF) || string(got) != want {
			t.Errorf("%.10q: got %.10q %v, want %.10q", text, got, err, want)
		}
	}
}
