package limit

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// opened returns a breaker of c that has just opened at noon.
func opened(t *testing.T, c BreakerConfig) *Breaker {
	t.Helper()
	b := NewBreaker(c)
	for range c.FailureThreshold {
		ticket, _ := b.Start()
		b.End(ticket, false, noon)
	}
	if got := stateOf(b, noon); got != Open {
		t.Fatalf("state after %d failures: got %v, want %v", c.FailureThreshold, got, Open)
	}
	return b
}

func TestZeroBreakerNeverOpens(t *testing.T) {
	var b Breaker
	for range 1000 {
		ticket, _ := b.Start()
		if got := b.End(ticket, false, noon); got != nil {
			t.Fatalf("transitions: got %v, want none", got)
		}
	}
	if got := b.Admit(noon).Verdict; got != Run {
		t.Errorf("verdict: got %v, want %v", got, Run)
	}
}

func TestOnlyConsecutiveFailuresOpen(t *testing.T) {
	b := NewBreaker(BreakerConfig{FailureThreshold: 3, Timeout: time.Minute})
	for i, fails := range []bool{true, true, false, true, true} {
		ticket, _ := b.Start()
		if got := b.End(ticket, !fails, noon); got != nil {
			t.Fatalf("transitions at outcome %d: got %v, want none", i, got)
		}
	}
	ticket, _ := b.Start()
	got := b.End(ticket, false, noon)
	want := []Transition{{To: Open, ConsecutiveFailures: 3, Until: noon.Add(time.Minute)}}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("transitions (-got +want):\n%s", diff)
	}
}

func TestOpenBreakerIsShutUntilItsTimeoutHasPassed(t *testing.T) {
	b := opened(t, BreakerConfig{FailureThreshold: 2, SuccessThreshold: 1, Timeout: 30 * time.Second, HalfOpenRequests: 1})
	until := noon.Add(30 * time.Second)
	if got, want := b.Admit(until.Add(-1)), (Admission{Shut, until}); got != want {
		t.Errorf("a moment before: got %v, want %v", got, want)
	}
	if got, want := b.Admit(until), (Admission{Verdict: Run}); got != want {
		t.Errorf("at the timeout: got %v, want %v", got, want)
	}
	if got := stateOf(b, until); got != HalfOpen {
		t.Errorf("state at the timeout: got %v, want %v", got, HalfOpen)
	}
	_, got := b.Start()
	if diff := cmp.Diff(got, []Transition{{To: HalfOpen}}); diff != "" {
		t.Errorf("transitions of the first test (-got +want):\n%s", diff)
	}
}

func TestMoreSuccessesThanTestsAtOnceStillClose(t *testing.T) {
	b := opened(t, BreakerConfig{FailureThreshold: 1, SuccessThreshold: 2, Timeout: time.Second, HalfOpenRequests: 1})
	now := noon.Add(time.Second)
	first, _ := b.Start()
	if got := b.Admit(now).Verdict; got != Full {
		t.Errorf("verdict during the only test: got %v, want %v", got, Full)
	}
	if got := b.End(first, true, now); got != nil {
		t.Errorf("transitions of the first success: got %v, want none", got)
	}
	second, _ := b.Start()
	if diff := cmp.Diff(b.End(second, true, now), []Transition{{To: Closed, Successes: 2}}); diff != "" {
		t.Errorf("transitions of the second success (-got +want):\n%s", diff)
	}
	if got := stateOf(b, now); got != Closed {
		t.Errorf("state: got %v, want %v", got, Closed)
	}
}

func TestFailedTestOpensAgainAndRestartsTheTimeout(t *testing.T) {
	b := opened(t, BreakerConfig{FailureThreshold: 2, SuccessThreshold: 3, Timeout: time.Minute, HalfOpenRequests: 3})
	now := noon.Add(time.Hour)
	failing, _ := b.Start()
	late, _ := b.Start()
	want := []Transition{{To: Open, ConsecutiveFailures: 3, Until: now.Add(time.Minute)}}
	if diff := cmp.Diff(b.End(failing, false, now), want); diff != "" {
		t.Errorf("transitions (-got +want):\n%s", diff)
	}
	if got := b.End(late, false, now.Add(time.Second)); got != nil {
		t.Errorf("the other test of that round: got %v, want that it counts for nothing", got)
	}
	if got, want := b.Admit(now).Until, now.Add(time.Minute); !got.Equal(want) {
		t.Errorf("until: got %v, want %v", got, want)
	}
}

func TestOutcomesFromBeforeTheOpeningCountForNothing(t *testing.T) {
	c := BreakerConfig{FailureThreshold: 1, SuccessThreshold: 1, Timeout: time.Second, HalfOpenRequests: 2}
	b := NewBreaker(c)
	good, _ := b.Start()
	bad, _ := b.Start()
	trip, _ := b.Start()
	b.End(trip, false, noon)
	now := noon.Add(time.Second)
	test, _ := b.Start()
	if got := b.End(good, true, now); got != nil || stateOf(b, now) != HalfOpen {
		t.Errorf("an old success: got %v and state %v, want nothing and %v", got, stateOf(b, now), HalfOpen)
	}
	if got := b.End(bad, false, now); got != nil || stateOf(b, now) != HalfOpen {
		t.Errorf("an old failure: got %v and state %v, want nothing and %v", got, stateOf(b, now), HalfOpen)
	}
	b.Release(bad)
	if b.Start(); b.Admit(now).Verdict != Full {
		t.Errorf("verdict with two tests in flight: got %v, want %v", b.Admit(now).Verdict, Full)
	}
	b.End(test, true, now)
	if got := stateOf(b, now); got != Closed {
		t.Errorf("state after the test: got %v, want %v", got, Closed)
	}
}

func TestInterruptedTestGivesItsPlaceBack(t *testing.T) {
	b := opened(t, BreakerConfig{FailureThreshold: 1, SuccessThreshold: 1, Timeout: time.Second, HalfOpenRequests: 1})
	now := noon.Add(time.Second)
	ticket, _ := b.Start()
	b.Release(ticket)
	if got := b.Admit(now).Verdict; got != Run {
		t.Errorf("verdict: got %v, want %v", got, Run)
	}
	if got := stateOf(b, now); got != HalfOpen {
		t.Errorf("state: got %v, want %v", got, HalfOpen)
	}
}

func TestAStartHalfOpensWhateverTheClockSays(t *testing.T) {
	b := opened(t, BreakerConfig{FailureThreshold: 1, SuccessThreshold: 1, Timeout: time.Hour, HalfOpenRequests: 1})
	if _, got := b.Start(); len(got) != 1 || got[0].To != HalfOpen {
		t.Errorf("transitions: got %v, want one to half-open", got)
	}
}

func TestSurvivingTestCountsLikeAnyOtherOnceClosed(t *testing.T) {
	b := opened(t, BreakerConfig{FailureThreshold: 1, SuccessThreshold: 1, Timeout: time.Second, HalfOpenRequests: 2})
	now := noon.Add(time.Second)
	first, _ := b.Start()
	second, _ := b.Start()
	b.End(first, true, now)
	if got := b.End(second, false, now); len(got) != 1 || got[0].To != Open {
		t.Errorf("transitions: got %v, want one to open", got)
	}
}

// The invariants of any history:
//  1. Never more than half_open_requests tests are admitted at once.
//  2. Shut comes only while open, and ends with the timeout.
//  3. Whatever happened, successes alone lead back to closed.
func TestAnyHistoryKeepsTheInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := BreakerConfig{
			FailureThreshold: rapid.IntRange(1, 4).Draw(t, "failure_threshold"),
			SuccessThreshold: rapid.IntRange(1, 5).Draw(t, "success_threshold"),
			HalfOpenRequests: rapid.IntRange(1, 3).Draw(t, "half_open_requests"),
			Timeout:          time.Duration(rapid.IntRange(1, 5).Draw(t, "timeout")) * time.Second,
		}
		b, now := NewBreaker(c), noon
		var flying []Ticket
		land := func(i int, outcome func(Ticket)) {
			ticket := flying[i]
			flying = append(flying[:i], flying[i+1:]...)
			outcome(ticket)
		}
		success := func(ticket Ticket) { b.End(ticket, true, now) }
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1:
				a := b.Admit(now)
				if a.Verdict == Shut && (stateOf(b, now) != Open || !now.Before(a.Until)) {
					t.Fatalf("got shut until %v at %v in state %v, want an open breaker before its timeout", a.Until, now, stateOf(b, now))
				}
				if a.Verdict == Run {
					ticket, _ := b.Start()
					flying = append(flying, ticket)
				}
			case 2:
				if len(flying) > 0 {
					land(rapid.IntRange(0, len(flying)-1).Draw(t, "which"), success)
				}
			case 3:
				if len(flying) > 0 {
					land(rapid.IntRange(0, len(flying)-1).Draw(t, "which"), func(ticket Ticket) { b.End(ticket, false, now) })
				}
			case 4:
				if len(flying) > 0 {
					land(rapid.IntRange(0, len(flying)-1).Draw(t, "which"), b.Release)
				}
			case 5:
				now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
			}
			tests := 0
			for _, ticket := range flying {
				if ticket.Test && ticket.Epoch == b.Epoch {
					tests++
				}
			}
			if b.State == HalfOpen && (tests > c.HalfOpenRequests || tests != b.Testing) {
				t.Fatalf("tests in flight: got %d (counted %d), want at most %d", tests, b.Testing, c.HalfOpenRequests)
			}
		}
		now = now.Add(c.Timeout)
		for len(flying) > 0 {
			land(0, success)
		}
		for range c.SuccessThreshold {
			if b.Admit(now).Verdict != Run {
				t.Fatalf("with nothing in flight and the timeout over: got %v, want %v", b.Admit(now), Run)
			}
			ticket, _ := b.Start()
			b.End(ticket, true, now)
		}
		if got := stateOf(b, now); got != Closed {
			t.Fatalf("state after %d successes: got %v, want %v", c.SuccessThreshold, got, Closed)
		}
	})
}

func TestABreakerGoesOnFromItsLastTransition(t *testing.T) {
	c := BreakerConfig{FailureThreshold: 3, SuccessThreshold: 1, HalfOpenRequests: 1, Timeout: time.Minute}
	open := Transition{To: Open, ConsecutiveFailures: 7, Until: noon.Add(time.Minute)}
	tests := []struct {
		name string
		last Transition
		at   time.Time
		want BreakerVerdict
	}{
		{"open", open, noon, Shut},
		{"open, and its time has come", open, noon.Add(time.Minute), Run},
		{"half-open, its tests gone with the run", Transition{To: HalfOpen, ConsecutiveFailures: 7}, noon, Run},
		{"closed", Transition{To: Closed}, noon, Run},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := ContinueBreaker(c, tt.last).Admit(tt.at).Verdict; got != tt.want {
				t.Errorf("verdict: got %v, want %v", got, tt.want)
			}
		})
	}
	b := ContinueBreaker(c, Transition{To: HalfOpen, ConsecutiveFailures: 7})
	ticket, _ := b.Start()
	got := b.End(ticket, false, noon)
	if len(got) != 1 || got[0].ConsecutiveFailures != 8 {
		t.Errorf("after a failed test: got %v, want open with 8 failures in a row", got)
	}
}

// stateOf returns the state at now: open turns into half-open when its timeout has passed.
func stateOf(b *Breaker, now time.Time) BreakerState {
	if b.State == Open && b.Admit(now).Verdict != Shut {
		return HalfOpen
	}
	return b.State
}

// A clock that was set back must not keep a breaker open for all the time that it has to catch up.
func TestABreakerIsOpenNoLongerThanItsTimeout(t *testing.T) {
	b := NewBreaker(BreakerConfig{FailureThreshold: 1, SuccessThreshold: 1, HalfOpenRequests: 1, Timeout: time.Minute})
	ticket, _ := b.Start()
	b.End(ticket, false, noon)
	for now, want := range map[time.Time]BreakerVerdict{
		noon: Shut, noon.Add(59 * time.Second): Shut, noon.Add(time.Minute): Run, noon.Add(-time.Hour): Run,
	} {
		if got := b.Admit(now).Verdict; got != want {
			t.Errorf("at %s: got %v, want %v", now, got, want)
		}
	}
}
