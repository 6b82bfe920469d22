package workflow

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// parse reads a workflow that must be valid.
func parse(t *testing.T, text string) *Workflow {
	t.Helper()
	w, err := Parse("w.yml", []byte(text), ParseOptions{})
	if err != nil {
		t.Fatalf("got %v, want no error for\n%s", err, text)
	}
	return w
}

// problems returns what is wrong with a workflow, a line each.
func problems(t *testing.T, text string) string {
	t.Helper()
	_, err := Parse("w.yml", []byte(text), ParseOptions{})
	if err == nil {
		return ""
	}
	if _, ok := errors.AsType[*InvalidError](err); !ok {
		t.Fatalf("got %T, want an *InvalidError", err)
	}
	return err.Error()
}

func TestEveryProblemIsToldAtItsPlace(t *testing.T) {
	files, err := filepath.Glob("testdata/invalid/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := problems(t, string(data)) + "\n"
			golden := strings.TrimSuffix(file, ".yml") + ".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryValidFileIsRead(t *testing.T) {
	files, err := filepath.Glob("testdata/valid/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d files, %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := problems(t, string(data)); got != "" {
			t.Errorf("%s: got %s, want no problems", file, got)
		}
	}
}
