package view_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

// Each half of a batch is one deeper than the batch. What comes after a batch begins anew.
func TestHalvesOfABatchAreDeeper(t *testing.T) {
	verify := func(passed bool, indexes ...int) []events.Event {
		e := events.VerifyStarted{Commit: "c"}
		for _, index := range indexes {
			e.ItemIDs = append(e.ItemIDs, item(index))
		}
		return []events.Event{e, events.VerifyCompleted{Commit: "c", Passed: passed}}
	}
	list := slices.Concat([]events.Event{events.JobStarted{Base: "b"}},
		verify(false, 0, 1, 2, 3), verify(false, 0, 1), verify(false, 0), verify(true, 1), verify(true, 2, 3), verify(true, 4, 5), []events.Event{events.VerifyStarted{ItemIDs: []string{item(6)}}})
	j, _ := fold(view.New(), list...)
	var depths []int
	for _, v := range j.Merges.Verifies.List {
		depths = append(depths, v.Depth)
	}
	if diff := cmp.Diff([]int{0, 1, 2, 2, 1, 0}, depths); diff != "" {
		t.Error(diff)
	}
	if v := j.Merges.Verifying; v == nil || v.ItemIDs[0] != item(6) {
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
	if c := j.Merges.Collisions; len(c.List) != 500 || c.Before != 100 || c.List[0].Conflicts[0].Path != "a" {
		t.Errorf("%d collisions, %d before", len(c.List), c.Before)
	}
	if n := len(j.Merges.Commits.List); n != 0 {
		t.Errorf("%d commits", n)
	}
}
