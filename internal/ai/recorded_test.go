package ai

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// recorded is what a CLI printed once, and what that means.
type recorded struct {
	CLI    string    `json:"cli"`
	Want   []Outcome `json:"want"`
	Stdout string    `json:"stdout"`
	Stderr string    `json:"stderr"`
	Exit   int       `json:"exit"` // minus the signal, if one ended it
}

func (r recorded) end() End {
	e := End{ExitCode: r.Exit, Now: recordedAt}
	if r.Exit < 0 {
		e.ExitCode, e.Signal = -1, "SIGTERM"
	}
	return e
}

var recordedAt = time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC)

func recordings(t testing.TB) map[string]recorded {
	t.Helper()
	paths, err := filepath.Glob("testdata/recorded/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatal("no recordings", err)
	}
	all := map[string]recorded{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var r recorded
		if err := json.Unmarshal(data, &r); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		r.CLI = strings.TrimSuffix(r.CLI, "197")
		all[strings.TrimSuffix(filepath.Base(path), ".json")] = r
	}
	return all
}

func verdictOf(t testing.TB, set Set, r recorded, piece int) Verdict {
	t.Helper()
	p, err := set.Find(r.CLI)
	if err != nil {
		t.Fatal(err)
	}
	reading := p.Read()
	for rest := []byte(r.Stdout); len(rest) > 0; {
		n := min(piece, len(rest))
		_, _ = reading.Write(rest[:n])
		rest = rest[n:]
	}
	reading.WriteStderr([]byte(r.Stderr))
	return reading.Verdict(r.end())
}

func builtInSet(t testing.TB) Set {
	t.Helper()
	set, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// What these say cannot be known from the output: that the answer was cut, or that a tool was not permitted.
var untold = []string{"gemini.max_tokens.stream", "qwen.tool_edit.json.denied"}

func TestRecordedOutputsHaveTheirOutcome(t *testing.T) {
	set := builtInSet(t)
	for name, r := range recordings(t) {
		v := verdictOf(t, set, r, 1000)
		if right := slices.Contains(r.Want, v.Outcome); right == slices.Contains(untold, name) {
			t.Errorf("%s: got %s by rule %q (%s), want one of %s", name, v.Outcome, v.Rule, v.Message, r.Want)
		}
		if v.Outcome == Success && v.Text == "" && !v.Whole {
			t.Errorf("%s: a success without an answer", name)
		}
		if v.Outcome != Success && v.Message == "" {
			t.Errorf("%s: no sentence", name)
		}
		t.Logf("%-40s %-16s %-18s %-14s %q", name, v.Outcome, v.Rule, v.Type, v.Message)
	}
}
