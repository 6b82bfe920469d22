package workflow

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"prodigy/internal/check"
)

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*/*.yml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := Parse("w.yml", data, ParseOptions{})
		if err == nil {
			checkRead(t, w)
			return
		}
		invalid, ok := errors.AsType[*InvalidError](err)
		if !ok || len(invalid.Problems) == 0 {
			t.Fatalf("got %v, want problems", err)
		}
		for _, p := range invalid.Problems {
			if p.File != "w.yml" || p.Line < 1 || p.Col < 1 || p.Line > strings.Count(string(data), "\n")+1 && !unusualBreaks(data) {
				t.Errorf("got %+v, want a place in the file", p)
			}
			if strings.Contains(p.Message, "yaml: ") {
				t.Errorf("got %q, want no words of the YAML library", p.Message)
			}
		}
	})
}

// unusualBreaks reports whether YAML counts lines in data otherwise than by newlines.
func unusualBreaks(data []byte) bool {
	return strings.ContainsAny(string(data), "\r\u0085\u2028\u2029")
}

// checkRead checks what holds for every workflow without problems.
func checkRead(t *testing.T, w *Workflow) {
	if w.Mode != Standard && w.Mode != MapReduce || (w.Mode == MapReduce) != (w.Map != nil) {
		t.Errorf("got mode %q and map %v, want one that fits", w.Mode, w.Map)
	}
	steps := slices.Clone(w.Commands)
	if w.Map != nil {
		steps = append(steps, w.Map.AgentTemplate...)
		for _, item := range w.Map.Input.Items {
			if !json.Valid(item) {
				t.Errorf("got item %s, want JSON", item)
			}
		}
	}
	if len(steps) == 0 {
		t.Error("got no steps, want some")
	}
	for _, s := range steps {
		var found check.Findings
		if s.Retry != nil {
			s.Retry.Check(&found)
		}
		if s.Kind() == "" || s.Timeout < 0 || len(found) > 0 {
			t.Errorf("got %+v, want a step that can run", s)
		}
	}
}
