package simulate

import (
	"reflect"
	"testing"
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

func TestTallyCountsStartsRetriesAndTimeAtTheLimit(t *testing.T) {
	began := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	again := began.Add(time.Minute)
	got := NewTally(&workflow.Workflow{})
	for _, one := range []struct {
		at    time.Duration
		event events.Event
	}{
		{0, events.JobStarted{MaxParallel: 2}},
		{0, events.AgentStarted{AttemptID: events.AttemptID{ItemIndex: 0}}},
		{1, events.AgentStarted{AttemptID: events.AttemptID{ItemIndex: 1}}},
		{4, events.AgentFailed{
			AttemptID: events.AttemptID{ItemIndex: 0, AgentID: "a"},
			Action:    errorpolicy.Retry, RetryAt: &again,
		}}, // 3 s with both slots taken
		{4, events.StepRetrying{}},
		{5, events.ConcurrencyChanged{Limit: 1, Before: 2}},
		{7, events.AgentCompleted{AttemptID: events.AttemptID{ItemIndex: 1}}}, // 2 s with the one slot taken
		{7, events.StartsHeld{By: "windows"}},
		{17, events.StartsAllowed{By: "windows"}},
		{18, events.AgentFailed{
			AttemptID: events.AttemptID{ItemIndex: 2},
			ErrorType: retry.TypeCircuitOpen, Action: errorpolicy.DLQ,
		}}, // refused by a breaker: it never ran
		{18, events.CircuitOpen{Scope: "workflow"}},
		{19, events.CircuitOpen{Scope: "workflow"}},
		{19, events.CircuitOpen{Scope: "fetch"}},
	} {
		got.Apply(events.Record{Time: began.Add(one.at * time.Second), Event: one.event})
	}
	want := &Tally{
		Attempts: 2, ItemRetries: 1, StepRetries: 1, DeadLetters: 1, Openings: map[string]int{"workflow": 2, "fetch": 1},
		AtOnce: 2, LowestLimit: 1, TopLimit: 2, AtLimit: events.Millis(5 * time.Second), Held: events.Millis(10 * time.Second),
	}
	got.Job, got.last, got.parked, got.slotWait = nil, time.Time{}, nil, workflow.ParkAfter{}
	if !reflect.DeepEqual(got, want) || got.Opened() != 3 {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestAnAttemptWithoutASlotDoesNotRun: one that waits for the next try of its step leaves its slot to others after
// some time.
func TestAnAttemptWithoutASlotDoesNotRun(t *testing.T) {
	began := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	got := NewTally(&workflow.Workflow{Map: &workflow.Map{ParkAfter: &workflow.ParkAfter{Time: 2 * time.Second}}})
	for _, one := range []struct {
		at    time.Duration
		event events.Event
	}{
		{0, events.JobStarted{MaxParallel: 2}},
		{0, events.AgentStarted{AttemptID: events.AttemptID{ItemID: "a"}}},
		{1, events.AgentStarted{AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1}}},
		{3, events.StepRetrying{ItemID: "a", DelayMS: events.Millis(20 * time.Second)}},              // both slots are taken from 1 to 5
		{4, events.StepRetrying{ItemID: "b", ItemIndex: 1, DelayMS: events.Millis(2 * time.Second)}}, // and kept
		{8, events.AgentStarted{AttemptID: events.AttemptID{ItemID: "c", ItemIndex: 2}}},             // from 8 to 9
		{9, events.AgentCompleted{AttemptID: events.AttemptID{ItemIndex: 2, ItemID: "c"}}},
		// and from 23 to 30
		{30, events.AgentFailed{AttemptID: events.AttemptID{ItemID: "a", AgentID: "a"}}},
		{31, events.AgentCompleted{AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1}}},
	} {
		got.Apply(events.Record{Time: began.Add(one.at * time.Second), Event: one.event})
	}
	if got.Attempts != 3 || got.AtOnce != 2 || got.AtLimit != events.Millis(12*time.Second) {
		t.Errorf("got %d attempts, %d at once, %v at the limit, want 3, 2, 12s", got.Attempts, got.AtOnce, time.Duration(got.AtLimit))
	}
	if got.Job.AtWork() != 0 || len(got.parked) != 0 {
		t.Errorf("%d attempts still run, of which %v have no slot", got.Job.AtWork(), got.parked)
	}
}
