package job

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/workflow"
)

// folded is what a golden log must fold to, in this version and every later one.
type folded struct {
	State   jobs.State           `json:"state"`
	Seq     int64                `json:"seq"`
	Status  []errorpolicy.Status `json:"status"` // by item index
	Waiting []int                `json:"waiting"`
	Metrics errorpolicy.Metrics  `json:"metrics"`
}

// Logs that an earlier version has written are never rewritten: whoever upgrades in the middle of a job has one like them.
func TestGoldenLogsFoldAsTheyDidWhenTheyWereWritten(t *testing.T) {
	logs, err := filepath.Glob("testdata/golden/*/*/events-*.jsonl")
	if err != nil || len(logs) == 0 {
		t.Fatalf("got %d golden logs, %v, want some", len(logs), err)
	}
	for _, log := range logs {
		dir := filepath.Dir(log)
		source, err := os.ReadFile(filepath.Join(dir, "workflow.yml"))
		if err != nil {
			t.Fatal(err)
		}
		var want folded
		got := fold(t, dir, string(source))
		data, err := os.ReadFile(filepath.Join(dir, "folded.json"))
		if errors.Is(err, os.ErrNotExist) && *update { // the log is new
			if data, err = json.MarshalIndent(got, "", "  "); err == nil {
				err = os.WriteFile(filepath.Join(dir, "folded.json"), append(data, '\n'), 0o644)
			}
		}
		if err == nil {
			err = json.Unmarshal(data, &want)
		}
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", dir, diff)
		}
		checkLastWord(t, dir, want)
	}
}

// checkLastWord checks that the last record of a log alone says what all of them come to, when it is an end.
func checkLastWord(t *testing.T, dir string, want folded) {
	t.Helper()
	last, err := lastWord(dir)
	if err != nil {
		t.Fatal(err)
	}
	var sum Summary
	if whole := sum.ended(last); whole != (want.State == jobs.Completed || want.State == jobs.Failed) {
		t.Errorf("%s: got %t, want that it is an end when the job is %q", dir, whole, want.State)
	} else if whole && (sum.State != want.State || !cmp.Equal(sum.Metrics, want.Metrics)) {
		t.Errorf("%s: got %s with %+v, want %s with %+v", dir, sum.State, sum.Metrics, want.State, want.Metrics)
	}
}

func fold(t *testing.T, dir, source string) folded {
	t.Helper()
	s := NewFold(parse(t, source).ErrorPolicy)
	for r, err := range events.Read(dir) {
		if err != nil {
			t.Fatal(err)
		}
		s.Apply(r)
	}
	f := folded{State: s.Ended, Seq: s.Seq, Metrics: s.Policy.Metrics()}
	for i := range s.Status.Len() {
		f.Status = append(f.Status, s.Status.At(i))
	}
	f.Waiting = slices.Sorted(maps.Keys(s.Waiting))
	return f
}

func parse(t *testing.T, source string) *workflow.Workflow {
	t.Helper()
	w, err := workflow.Parse("w.yml", []byte(source), workflow.ParseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}
