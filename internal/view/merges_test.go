package view_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/retry"
	"prodigy/internal/view"
)

// worked is an attempt that has changed something.
func worked(index int) events.AgentCompleted {
	e := done(index)
	e.Commit = "c"
	return e
}

func taken(indexes ...int) events.WorktreeMerged {
	e := events.WorktreeMerged{Head: "h", DurationMS: 1}
	for _, index := range indexes {
		e.ItemIDs, e.ItemIndexes, e.Attempts = append(e.ItemIDs, item(index)), append(e.ItemIndexes, index), append(e.Attempts, 1)
		e.Commits, e.Files = append(e.Commits, fmt.Sprint("m", index)), append(e.Files, 1)
	}
	return e
}

func TestTheQueueIsInTheOrderInWhichItIsMerged(t *testing.T) {
	j, _ := fold(view.New(), events.JobStarted{Base: "b"}, begun(0), begun(1), begun(2), begun(3), worked(2), worked(0), worked(3), taken(3))
	ids := func(byItem bool) (list []string) {
		for _, q := range j.Queue(byItem) {
			list = append(list, q.ItemID)
		}
		return list
	}
	if got, want := ids(false), []string{item(2), item(0)}; !slices.Equal(got, want) {
		t.Errorf("by completion: %v, want %v", got, want)
	}
	if got, want := ids(true), []string{item(0), item(2)}; !slices.Equal(got, want) {
		t.Errorf("by item: %v, want %v", got, want)
	}
}

// What verifies when a run dies does not verify any more.
func TestAVerifyEndsWithItsRun(t *testing.T) {
	j, _ := fold(view.New(), events.JobStarted{Base: "b"}, events.VerifyStarted{ItemIDs: []string{item(5)}},
		events.VerifyCompleted{Passed: true}, events.VerifyStarted{ItemIDs: []string{item(6)}})
	if v := j.Merges.Verifying; v == nil || v.ItemIDs[0] != item(6) || len(j.Merges.Verifies.List) != 1 {
		t.Errorf("verifying: %+v", v)
	}
	j.Apply(events.Record{Time: start.Add(time.Hour), Event: events.JobResumed{}})
	if j.Merges.Verifying != nil {
		t.Error("what ran when the run died still runs")
	}
}

func TestConflictsAreListedAndBounded(t *testing.T) {
	conflict := broken(1, errorpolicy.DLQ)
	conflict.ErrorType, conflict.Conflicts = retry.TypeMergeConflict, []events.Conflict{{Path: "a", With: []string{item(0)}}}
	list := []events.Event{events.JobStarted{Base: "b"}, begun(1), worked(1)}
	for range 600 {
		list = append(list, conflict)
	}
	list = append(list, broken(2, errorpolicy.DLQ), events.PhaseCompleted{Phase: "setup"})
	j, _ := fold(view.New(), list...)
	if c := j.Merges.Collisions; len(c.List) != 100 || c.Before != 500 || c.List[0].Conflicts[0].Path != "a" {
		t.Errorf("%d collisions, %d before", len(c.List), c.Before)
	}
}
