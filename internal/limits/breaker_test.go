package limits

import (
	"strings"
	"testing"
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/limit"
	"prodigy/internal/retry"
)

// The breaker learns from each attempt, holds what there is no test for, and tells each of its transitions once.
func TestBreakerLearnsFromEachAttempt(t *testing.T) {
	config := limit.BreakerConfig{FailureThreshold: 3, SuccessThreshold: 2, Timeout: time.Minute, HalfOpenRequests: 1}
	b := newBreaker(errorpolicy.Policy{CircuitBreaker: &config})
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	var told strings.Builder
	apply := func(es ...events.Event) {
		for _, e := range es {
			b.Apply(events.Record{Time: now, Event: e}, nil)
			for e := b.Tell(); e != nil; e = b.Tell() {
				told.WriteString(events.TypeOf(e) + " ")
				b.Apply(events.Record{Time: now, Event: e}, nil)
			}
		}
	}
	admits := func(when string, want Answer) {
		t.Helper()
		if got := b.Admit(Ask{Class: New, Now: now}); got.Answer != want {
			t.Errorf("%s: got %+v, want answer %v", when, got, want)
		}
	}
	for i := range 3 {
		apply(events.AgentStarted{AttemptID: events.AttemptID{ItemIndex: i}},
			events.AgentFailed{AttemptID: events.AttemptID{ItemIndex: i, AgentID: "a"}, ErrorType: retry.TypeNetwork})
	}
	admits("after three failed attempts", Refuse)
	now = now.Add(time.Minute)
	apply(events.AgentStarted{AttemptID: events.AttemptID{ItemIndex: 3}},
		events.AgentInterrupted{AttemptID: events.AttemptID{ItemIndex: 3}})
	admits("after a test that was stopped", Go)
	for i := range 2 {
		apply(events.AgentStarted{AttemptID: events.AttemptID{ItemIndex: 4 + i}})
		admits("during the only test", Wait)
		apply(events.AgentCompleted{AttemptID: events.AttemptID{ItemIndex: 4 + i}})
	}
	admits("after two successes", Go)
	if want := "CircuitOpen CircuitHalfOpen CircuitClosed "; told.String() != want || len(b.Tickets) > 0 {
		t.Errorf("told %q and kept %v, want %q and none", told.String(), b.Tickets, want)
	}
}

func TestRetriesOfDeadLettersCloseTheBreaker(t *testing.T) {
	config := limit.BreakerConfig{FailureThreshold: 1, Timeout: time.Hour, OnOpen: limit.Wait}
	b := newBreaker(errorpolicy.Policy{CircuitBreaker: &config})
	now := time.Unix(0, 0)
	b.Apply(events.Record{Time: now, Event: events.AgentFailed{ErrorType: retry.TypeNetwork}}, nil)
	if v := b.Admit(Ask{Class: New, Now: now}); v.Answer != Wait || !v.Until.Equal(now.Add(time.Hour)) {
		t.Errorf("got %+v, want that it waits for an hour", v)
	}
	b.Apply(events.Record{Time: now, Event: events.JobResumed{Reason: events.ForDeadLetters}}, nil)
	if v := b.Admit(Ask{Class: New, Now: now}); v.Answer != Go {
		t.Errorf("got %+v after the resume, want Go", v)
	}
}
