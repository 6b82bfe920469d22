package simulate

import (
	"reflect"
	"testing"
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/retry"
)

func TestTallyCountsStartsRetriesAndTimeAtTheLimit(t *testing.T) {
	began := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	again := began.Add(time.Minute)
	got := NewTally()
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
	got.Job, got.last, got.running = nil, time.Time{}, 0
	if !reflect.DeepEqual(got, want) || got.Opened() != 3 {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
