package view_test

import (
	"fmt"
	"testing"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/view"
)

// One breaker of many is found without a look at the others, since that is asked for at each opening.
func TestABreakerOfAKeyIsKnownWhileItIsNotClosed(t *testing.T) {
	j := view.New()
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for i := range 1000 {
		j.Apply(events.Record{Seq: int64(i + 1), Time: at, Event: events.CircuitOpen{Scope: events.WorkflowScope, Key: fmt.Sprint(i), ConsecutiveFailures: 2, Until: at.Add(time.Minute)}})
	}
	if b, ok := j.Breaker(events.WorkflowScope, "7"); !ok || b.Key != "7" || b.State != view.Open || b.Failures != 2 {
		t.Errorf("got %+v %v", b, ok)
	}
	if allocs := testing.AllocsPerRun(10, func() { j.Breaker(events.WorkflowScope, "7") }); allocs > 0 {
		t.Errorf("to find one of 1,000 took %v allocations", allocs)
	}
	j.Apply(events.Record{Seq: 1001, Time: at, Event: events.CircuitClosed{Scope: events.WorkflowScope, Key: "7"}})
	if _, ok := j.Breaker(events.WorkflowScope, "7"); ok || len(j.Breakers()) != 999 {
		t.Errorf("got one that has closed, and %d that are not closed", len(j.Breakers()))
	}
}
