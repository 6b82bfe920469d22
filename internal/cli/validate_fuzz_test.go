package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"prodigy/internal/mapreduce"
	"prodigy/internal/workflow"
)

// Whatever a file holds, validate comes to an end, and all that it says has a place in the file.
func FuzzValidate(f *testing.F) {
	for _, pattern := range []string{"../../testdata/workflows/*.yml", "../../internal/workflow/testdata/*/*.yml", "../../examples/*/*.yml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("%s: got %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "w.yml")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		v, err := judge(t.Context(), path, mapreduce.Config{}, settingOptions{})
		if err != nil {
			t.Fatalf("got %v, want a verdict", err)
		}
		if v.Valid == (len(v.Problems) > 0) {
			t.Errorf("got valid %v with the problems %v", v.Valid, v.Problems)
		}
		checkPlaces(t, path, data, v.Problems)
		checkPlaces(t, path, data, v.Warnings)
	})
}

func checkPlaces(t *testing.T, path string, data []byte, told []workflow.Problem) {
	t.Helper()
	unusualBreaks := strings.ContainsAny(string(data), "\r\u0085\u2028\u2029")
	for _, p := range told {
		if p.File != path || p.Line < 1 || p.Col < 1 || p.Line > strings.Count(string(data), "\n")+1 && !unusualBreaks {
			t.Errorf("got %+v, want a place in the file", p)
		}
		if strings.TrimSpace(p.Message) == "" {
			t.Errorf("got no words at %d:%d", p.Line, p.Col)
		}
	}
}
