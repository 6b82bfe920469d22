package events

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/errorpolicy"
)

// golden is the log of a job that the first version wrote: retries of a step and of items, a dead letter, a breaker that
// opened and closed, reduce; in two files, the first of them compressed. It is never written again.
const golden = "../../testdata/golden/v1"

// Whatever is added to events later, what was written once comes back as it was.
func TestTheFirstLogsAreReadForEver(t *testing.T) {
	records := readAll(t, golden)
	lines, err := collect(t, golden, Query{})
	if err != nil || len(lines) != 35 || len(records) != 35 {
		t.Fatalf("got %d records and %d lines, %v, want 35", len(records), len(lines), err)
	}
	for i, r := range records {
		if u, ok := r.Event.(Unknown); ok {
			t.Errorf("record %d is of unknown type %s", r.Seq, u.Name)
		}
		text, err := Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		got, want := fieldsOf(t, text), fieldsOf(t, []byte(lines[i]))
		for name, value := range want {
			if diff := cmp.Diff(got[name], value); diff != "" {
				t.Errorf("record %d, %s (-got +want):\n%s", r.Seq, name, diff)
			}
		}
	}
}

func fieldsOf(t *testing.T, line []byte) map[string]any {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal(line, &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}

func TestTheFirstLogsSayTheSameForEver(t *testing.T) {
	records := readAll(t, golden)
	var s Stats
	for _, r := range records {
		s.Add(r)
	}
	sum := s.Sum()
	got := []int{sum.Items, sum.Attempts, sum.Retries, sum.StepRetries, sum.Types["DLQItemAdded"], sum.Types["CircuitClosed"], sum.ErrorTypes["command_failed"]}
	if want := []int{6, 8, 2, 1, 1, 1, 3}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	first := slices.IndexFunc(records, func(r Record) bool { _, failed := r.Event.(AgentFailed); return failed })
	failed := records[first].Event.(AgentFailed)
	if failed.Action != errorpolicy.Retry || *failed.DelayMS != Millis(10*time.Millisecond) || failed.RetryAt.Sub(records[first].Time) > 10*time.Millisecond ||
		failed.Retry.Attempts != 1 || *failed.ExitCode != 7 || failed.ItemID != "item_1" || records[first].CorrelationID != failed.AgentID[:len(failed.AgentID)-2] {
		t.Errorf("got another decision than was recorded: %+v", failed)
	}
}

func TestTheFirstLogsGoOn(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(golden)); err != nil {
		t.Fatal(err)
	}
	l, err := Open(dir, "j", 35, Options{})
	if err != nil {
		t.Fatal(err)
	}
	l.Append(start0, JobResumed{})
	closeLog(t, l)
	if got := len(readAll(t, dir)); got != 36 {
		t.Errorf("got %d records, want 36", got)
	}
}
