package events

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// longLog has three files, the first of them compressed and the others of several blocks, and ends in a torn line.
func longLog(t *testing.T) string {
	t.Helper()
	var all []Event
	for i := range 60 {
		e := Event(PhaseStarted{Phase: "map"})
		if i%7 != 0 {
			e = AgentCompleted{AttemptID: AttemptID{ItemID: "a"}, ItemOutput: ItemOutput{Output: strings.Repeat("x",
				i*1000)}}
		}
		all = append(all, e)
	}
	dir := logDir(t, numbered(t, 1, all[:20]...), numbered(t, 21, all[20:40]...), numbered(t, 41, all[40:]...)+`{"seq":61,"ti`)
	if err := compress(filepath.Join(dir, "events-0.jsonl")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestALimitGivesTheLastOfAllLines(t *testing.T) {
	dir := longLog(t)
	for _, q := range []Query{{}, {Type: "phase_started"}, {Type: "agent_completed"}, {ItemID: "a"}, {Type: "job_paused"}} {
		all, err := collect(t, dir, q)
		if !errors.Is(err, ErrTorn) {
			t.Fatalf("got %v, want a torn line", err)
		}
		for _, limit := range []int{1, 2, 3, 20, 21, 45, 60, 100} {
			q.Limit = limit
			got, err := collect(t, dir, q)
			if want := all[max(0, len(all)-limit):]; !slices.Equal(got, want) || !errors.Is(err, ErrTorn) {
				t.Errorf("%+v: got %d lines and %v, want %d and a torn line", q, len(got), err, len(want))
			}
		}
	}
}

func TestALimitDoesNotPassOverDamage(t *testing.T) {
	text := numbered(t, 1, JobPaused{}, JobPaused{}, JobPaused{})
	damaged := strings.Replace(text, `{"seq":2`, `{"xeq":2`, 1)
	dir := logDir(t, damaged)
	if got, err := collect(t, dir, Query{Limit: 1}); len(got) != 1 || err != nil {
		t.Errorf("damage before what was wanted: got %d lines and %v, want 1", len(got), err)
	}
	if _, err := collect(t, dir, Query{Limit: 2}); err == nil || errors.Is(err, ErrTorn) {
		t.Errorf("got %v, want the damage told", err)
	}
}
