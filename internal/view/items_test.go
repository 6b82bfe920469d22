package view

import (
	"iter"
	"slices"
	"testing"
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
)

// itemLog are the records of a job in which every kind of item is.
func itemLog() iter.Seq2[events.Record, error] {
	began := time.Date(2026, 11, 20, 16, 0, 0, 0, time.UTC)
	due := began.Add(time.Hour)
	start := func(i, n int) events.Event {
		return events.AgentStarted{AttemptID: events.AttemptID{ItemID: "i", ItemIndex: i, Attempt: n}}
	}
	failed := func(i int, a errorpolicy.Action, message string) events.Event {
		e := events.AgentFailed{
			AttemptID: events.AttemptID{ItemID: "i", ItemIndex: i, AgentID: "a", Attempt: 1},
			ErrorType: "network", Error: message, Action: a, Step: "get",
			DurationMS: events.Millis(1500 * time.Millisecond),
		}
		if a.RunsAgain() {
			e.RetryAt, e.DelayMS = &due, new(events.Millis)
		}
		return e
	}
	list := []events.Event{
		events.JobStarted{},
		events.ItemsSelected{TotalItems: 10},
		start(0, 1),
		events.AgentCompleted{
			AttemptID:  events.AttemptID{ItemIndex: 0, Attempt: 1},
			DurationMS: events.Millis(2 * time.Second),
		},
		start(1, 1), failed(1, errorpolicy.DLQ, "Connection REFUSED"),
		start(2, 1), failed(2, errorpolicy.Skip, "refused too"),
		start(3, 1), failed(3, errorpolicy.Retry, "refused"), start(3, 2),
		events.AgentCompleted{AttemptID: events.AttemptID{ItemIndex: 3, Attempt: 2}},
		start(4, 1), failed(4, errorpolicy.Retry, "refused"), start(4, 2), failed(4, errorpolicy.Retry, "timed out"),
		start(5, 1), failed(5, errorpolicy.Retry, "refused"), start(5, 2),
		start(6, 1), failed(6, errorpolicy.DLQ, "timed out"),
		events.JobPaused{},
		events.JobResumed{Reason: events.ForDeadLetters},
		start(6, 2), failed(6, errorpolicy.Retry, "refused"),
		start(1, 2),
		start(7, 1),
		events.AgentCompleted{
			AttemptID: events.AttemptID{ItemIndex: 7, Attempt: 1},
			Changes:   events.Changes{Commit: "c0ffee"},
		},
		start(8, 1),
		events.AgentCompleted{
			AttemptID: events.AttemptID{ItemIndex: 8, Attempt: 1},
			Changes:   events.Changes{Commit: "c0ffee"},
		},
		events.WorktreeMerged{ItemIDs: []string{"item_8"}, ItemIndexes: []int{8}, Attempts: []int{1}, Commits: []string{"c"}, Files: []int{1}},
	}
	return func(yield func(events.Record, error) bool) {
		for i, e := range list {
			if !yield(events.Record{Seq: int64(i + 1), Time: began.Add(time.Duration(i) * time.Second), Event: e}, nil) {
				return
			}
		}
		yield(events.Record{}, events.ErrTorn)
	}
}

func TestItemsAreSearchedByStatusAndFailure(t *testing.T) {
	for _, c := range []struct {
		running bool
		status  Status
		failure string
		want    []int
	}{
		{true, "", "", []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
		{true, Succeeded, "", []int{0, 3, 8}},
		{true, InFlight, "", []int{1}},
		{false, InFlight, "", nil},
		{false, DeadLetter, "", []int{1}},
		{true, Skipped, "", []int{2}},
		{true, Waiting, "", []int{4, 6}},
		{true, Pending, "", []int{5, 9}}, // 5 was stopped
		{true, Merging, "", []int{7}},
		{true, "", "refused", []int{1, 2, 5, 6}},
		{true, "", "Network: connection", []int{1}},
		{true, Skipped, "refused", []int{2}},
		{true, "", "<no such>", nil},
	} {
		s, err := ListItems(itemLog(), c.running)
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for i := range 10 {
			if s.Fits(i, c.status, c.failure) {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("running %v, status %q, failure %q: got %v, want %v", c.running, c.status, c.failure, got, c.want)
		}
	}
}

// Its retry from the queue was stopped while the item waited for another attempt: with the next run still a dead letter.
func TestADeadLetterWhoseRetryWasStoppedIsOneAsBefore(t *testing.T) {
	j := New()
	for r, err := range itemLog() {
		if err == nil {
			j.Apply(r)
		}
	}
	j.Apply(events.Record{Event: events.JobResumed{Reason: events.ForResume}})
	if got := j.StatusOf(6); got != DeadLetter {
		t.Errorf("got %q, want a dead letter", got)
	}
	if got := j.StatusOf(4); got != Waiting {
		t.Errorf("an item that never ended: got %q, want that it waits", got)
	}
}

func TestCoursesHaveTheLastAttemptAndFailure(t *testing.T) {
	got, err := ListItems(itemLog(), true)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Date(2026, 11, 20, 16, 0, 0, 0, time.UTC)
	at := func(n int) time.Time { return began.Add(time.Duration(n) * time.Second) }
	want := map[int]Course{
		0: {Attempts: 1, Last: at(3), Duration: 2 * time.Second},
		1: {Attempts: 2, Last: at(25), Duration: 1500 * time.Millisecond, Failure: "Connection REFUSED", Type: "network", Step: "get"},
		3: {Attempts: 2, Last: at(11)},
		4: {Attempts: 2, Last: at(15), Duration: 1500 * time.Millisecond, Failure: "timed out", Type: "network", Step: "get"},
	}
	for index := range 10 {
		if got, want := got.Course(index), want[index]; slices.Contains([]int{0, 1, 3, 4, 9}, index) && got != want {
			t.Errorf("item %d: got  %+v\nwant %+v", index, got, want)
		}
	}
}
