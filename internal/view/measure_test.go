package view

import (
	"testing"
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
)

// Items that come to an end at an even pace are estimated rightly: the true rest lies in the range.
func TestTheEstimateHoldsTheTrueRest(t *testing.T) {
	const total, each = 400, 250 * time.Millisecond
	j := New()
	now := time.Unix(1_000_000, 0)
	apply := func(e events.Event) { j.Apply(events.Record{Time: now, Event: e}) }
	apply(events.JobStarted{})
	apply(events.PhaseStarted{Phase: "map"})
	for i := range total {
		if _, ok := j.Remaining(now); ok {
			t.Fatal("there is an estimate before the number of items is known")
		}
		if i == 100 {
			break
		}
		now = now.Add(each)
		apply(events.AgentStarted{AttemptID: events.AttemptID{ItemIndex: i}})
		apply(events.AgentCompleted{AttemptID: events.AttemptID{ItemIndex: i}, DurationMS: events.Millis(each)})
	}
	apply(events.ItemsSelected{TotalItems: total})
	for i := 100; i < total-1; i++ {
		now = now.Add(each)
		apply(events.AgentStarted{AttemptID: events.AttemptID{ItemIndex: i}})
		apply(events.AgentCompleted{AttemptID: events.AttemptID{ItemIndex: i}, DurationMS: events.Millis(each)})
		e, ok := j.Remaining(now)
		left := time.Duration(total-1-i) * each
		if !ok || left < e.Low || left > e.High {
			t.Fatalf("after %d items: %v to %v (%v), want %v within", i+1, e.Low, e.High, ok, left)
		}
	}
}

func TestTheEstimateWaitsForRetriesAndForTheBreaker(t *testing.T) {
	j := New()
	now := time.Unix(1_000_000, 0)
	apply := func(e events.Event) { j.Apply(events.Record{Time: now, Event: e}) }
	apply(events.JobStarted{})
	apply(events.ItemsSelected{TotalItems: 20})
	for i := range 19 {
		now = now.Add(100 * time.Millisecond)
		apply(events.AgentStarted{AttemptID: events.AttemptID{ItemIndex: i}})
		apply(events.AgentCompleted{
			AttemptID:  events.AttemptID{ItemIndex: i},
			DurationMS: events.Millis(time.Millisecond),
		})
	}
	due, delay := now.Add(10*time.Minute), events.Millis(10*time.Minute)
	apply(events.AgentStarted{AttemptID: events.AttemptID{ItemIndex: 19}})
	apply(events.AgentFailed{
		AttemptID: events.AttemptID{ItemIndex: 19},
		Action:    errorpolicy.Retry, RetryAt: &due, DelayMS: &delay,
	})
	if e, ok := j.Remaining(now); !ok || e.Low < 10*time.Minute || e.High > 11*time.Minute {
		t.Errorf("with a retry due in 10m: %v to %v (%v)", e.Low, e.High, ok)
	}
	apply(events.CircuitOpen{Scope: "workflow", Until: now.Add(time.Hour)})
	if e, ok := j.Remaining(now); !ok || e.Low < time.Hour {
		t.Errorf("with the breaker open for 1h: %v to %v (%v)", e.Low, e.High, ok)
	}
}

func TestTheRateIsThatOfNow(t *testing.T) {
	j := New()
	now := time.Unix(1_000_000, 0)
	apply := func(e events.Event) { j.Apply(events.Record{Time: now, Event: e}) }
	apply(events.JobStarted{})
	index := 0
	finish := func(n int, each time.Duration) {
		for range n {
			now = now.Add(each)
			apply(events.AgentCompleted{AttemptID: events.AttemptID{ItemIndex: index}})
			index++
		}
	}
	finish(20, 10*time.Second)
	if got := j.Rate(now); got < 0.09 || got > 0.11 {
		t.Errorf("one in 10s gives a rate of %v", got)
	}
	finish(1000, 10*time.Millisecond)
	if got := j.Rate(now); got < 80 || got > 120 {
		t.Errorf("100 a second gives a rate of %v", got)
	}
	now = now.Add(30 * time.Second)
	if got := j.Rate(now); got > 20 {
		t.Errorf("30s after the last one the rate is still %v", got)
	}
}
