package retry

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"prodigy/internal/duration"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// runOut lets every attempt fail with f and returns the delays decided and the last decision. Each attempt takes a minute.
func runOut(p Policy, f Failure) ([]time.Duration, Decision) {
	var delays []time.Duration
	now, s, rnd := noon, State{}, NewRand(1)
	for {
		d := p.Next(s, f, now, rnd)
		if !d.Retry {
			return delays, d
		}
		delays = append(delays, d.Delay)
		s, now = d.State, now.Add(time.Minute+d.Delay)
	}
}

func TestAttemptsCountTheFirstTry(t *testing.T) {
	delays, last := runOut(Default(), Failure{ExitCode: 1})
	if diff := cmp.Diff(delays, seconds(1, 2)); diff != "" {
		t.Errorf("delays of 3 attempts (-got +want):\n%s", diff)
	}
	if last.Reason != Exhausted || last.State.Attempts != 3 || last.Type != TypeCommandFailed {
		t.Errorf("got %+v, want exhausted after 3 attempts of type command_failed", last)
	}
}

func TestZeroPolicyNeverRetries(t *testing.T) {
	d := Policy{}.Next(State{}, Failure{ExitCode: 1}, noon, nil)
	want := Decision{Reason: Exhausted, Type: TypeCommandFailed, State: State{Attempts: 1}}
	if diff := cmp.Diff(d, want); diff != "" {
		t.Errorf("decision (-got +want):\n%s", diff)
	}
}

func TestBudgetLimitsWaiting(t *testing.T) {
	for name, c := range map[string]struct {
		attempts int
		backoff  Backoff
		initial  time.Duration
		maxDelay time.Duration
		budget   time.Duration
		want     []time.Duration
		reason   Reason
	}{
		"2m before 100 attempts":         {100, Backoff{}, time.Second, 30 * time.Second, 2 * time.Minute, seconds(1, 2, 4, 8, 16, 30, 30), Budget},
		"2m with a high cap":             {100, Backoff{Base: new(2.0)}, time.Second, time.Hour, 2 * time.Minute, seconds(1, 2, 4, 8, 16, 32), Budget},
		"3 attempts before 10m":          {3, Backoff{Strategy: Fixed}, 5 * time.Second, 30 * time.Second, 10 * time.Minute, seconds(5, 5), Exhausted},
		"5s ends at the third retry":     {10, Backoff{}, time.Second, 30 * time.Second, 5 * time.Second, seconds(1, 2), Budget},
		"7s is enough for three retries": {10, Backoff{}, time.Second, 30 * time.Second, 7 * time.Second, seconds(1, 2, 4), Budget},
		"5m in the first example":        {10, Backoff{Base: new(2.0)}, time.Second, 30 * time.Second, 5 * time.Minute, seconds(1, 2, 4, 8, 16, 30, 30, 30, 30), Exhausted},
		"smaller than the first delay":   {10, Backoff{}, time.Second, 30 * time.Second, time.Second - 1, nil, Budget},
		"none":                           {4, Backoff{}, time.Second, 30 * time.Second, 0, seconds(1, 2, 4), Exhausted},
	} {
		p := Policy{Attempts: c.attempts, Backoff: c.backoff, InitialDelay: c.initial, MaxDelay: c.maxDelay, Budget: c.budget}
		delays, last := runOut(p, Failure{ExitCode: 1})
		if diff := cmp.Diff(delays, c.want); diff != "" {
			t.Errorf("%s: delays (-got +want):\n%s", name, diff)
		}
		if last.Reason != c.reason {
			t.Errorf("%s: reason: got %q, want %q", name, last.Reason, c.reason)
		}
	}
}

func TestDecisionCarriesWhatItWasMadeOf(t *testing.T) {
	p := Default()
	p.Budget, p.RetryOn = 10*time.Second, []Matcher{{Name: "timeout"}, {Name: "network"}}
	before := State{Attempts: 1, Waited: duration.Millis(time.Second), Previous: duration.Millis(time.Second), ExpiresAt: noon}
	got := p.Next(before, Failure{ExitCode: 7, Stderr: "connection refused"}, noon.Add(time.Hour), nil)
	want := Decision{
		Retry: true, Type: TypeNetwork, Matched: "network", Computed: 2 * time.Second, Delay: 2 * time.Second, BudgetLeft: 7 * time.Second,
		State: State{Attempts: 2, Waited: duration.Millis(3 * time.Second), Previous: duration.Millis(2 * time.Second), ExpiresAt: noon},
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("decision (-got +want):\n%s", diff)
	}
}

func TestBudgetExpiresByTheClockOnlyAfterAResume(t *testing.T) {
	p := Default()
	p.Budget = time.Minute
	first := p.Next(State{}, Failure{ExitCode: 1}, noon, nil)
	if want := noon.Add(time.Minute); !first.State.ExpiresAt.Equal(want) {
		t.Fatalf("expiry: got %v, want %v", first.State.ExpiresAt, want)
	}
	if got := p.Next(first.State, Failure{ExitCode: 1}, noon.Add(time.Hour), nil); !got.Retry {
		t.Errorf("an hour later in the same run: got %q, want a retry", got.Reason)
	}
	resumed := first.State
	resumed.Resumed = true
	if got := p.Next(resumed, Failure{ExitCode: 1}, noon.Add(time.Minute-2*time.Second-1), nil); !got.Retry {
		t.Errorf("resumed before the expiry: got %q, want a retry", got.Reason)
	}
	if got := p.Next(resumed, Failure{ExitCode: 1}, noon.Add(time.Minute-2*time.Second), nil); got.Reason != Budget {
		t.Errorf("resumed so late that the next try would begin at the expiry: got retry %v, reason %q, want %q", got.Retry, got.Reason, Budget)
	}
	p.Budget = 0
	if got := p.Next(resumed, Failure{ExitCode: 1}, noon.Add(time.Hour), nil); !got.Retry {
		t.Errorf("without a budget: got %q, want a retry", got.Reason)
	}
}

func TestReasonsWhyThereIsNoRetry(t *testing.T) {
	network := []Matcher{{Name: "network"}}
	for name, c := range map[string]struct {
		retryOn []Matcher
		failure Failure
		tries   int
		want    Reason
	}{
		"anything":                          {nil, Failure{ExitCode: 1}, 0, ""},
		"a match":                           {network, Failure{ExitCode: 1, Stderr: "connection refused"}, 0, ""},
		"any of two matches":                {append(network, Matcher{ExitCodes: []int{75}}), Failure{ExitCode: 75}, 0, ""},
		"no match":                          {network, Failure{ExitCode: 1}, 0, NotRetryable},
		"not found":                         {nil, Failure{ExitCode: 127}, 0, Permanent},
		"not executable":                    {nil, Failure{ExitCode: 126}, 0, Permanent},
		"template":                          {nil, Failure{Type: TypeTemplate, ExitCode: -1}, 0, Permanent},
		"not found, by its type":            {nil, Failure{Type: TypeCommandNotFound, ExitCode: -1}, 0, Permanent},
		"permanent and no match":            {network, Failure{ExitCode: 127}, 0, Permanent},
		"permanent, but a matcher says so":  {[]Matcher{{ExitCodes: []int{127}}}, Failure{ExitCode: 127}, 0, ""},
		"permission denied is not for good": {nil, Failure{ExitCode: 1, Stderr: "permission denied"}, 0, ""},
		"tries used up before all else":     {network, Failure{ExitCode: 127}, 2, Exhausted},
		"breaker open":                      {nil, Failure{Type: TypeCircuitOpen, ExitCode: -1}, 0, CircuitOpen},
		"breaker open, whatever matches":    {network, Failure{Type: TypeCircuitOpen, Stderr: "connection refused"}, 2, CircuitOpen},
	} {
		p := Default()
		p.RetryOn = c.retryOn
		got := p.Next(State{Attempts: c.tries}, c.failure, noon, nil)
		if got.Reason != c.want || got.Retry != (c.want == "") {
			t.Errorf("%s: got retry %v, reason %q, want reason %q", name, got.Retry, got.Reason, c.want)
		}
	}
}

func TestRefusalByTheBreakerIsNoTry(t *testing.T) {
	before := State{Attempts: 1, Waited: duration.Millis(time.Second)}
	if got := Default().Next(before, Failure{Type: TypeCircuitOpen}, noon, nil); got.State != before {
		t.Errorf("state: got %+v, want %+v", got.State, before)
	}
}

func TestWaitingNeverExceedsTheBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Default()
		p.Attempts = rapid.IntRange(1, 50).Draw(t, "attempts")
		p.Jitter = rapid.SampledFrom(append(jitters, NoJitter)).Draw(t, "jitter")
		p.Budget = time.Duration(rapid.IntRange(1, 300_000).Draw(t, "budget")) * ms
		p.InitialDelay = time.Duration(rapid.IntRange(0, 5000).Draw(t, "initial")) * ms
		delays, last := runOut(p, Failure{ExitCode: 1})
		var waited time.Duration
		for _, d := range delays {
			waited += d
		}
		if waited > p.Budget || waited != time.Duration(last.State.Waited) {
			t.Fatalf("waited: got %v, state says %v, want at most %v", waited, last.State.Waited, p.Budget)
		}
		if tries := len(delays) + 1; tries != last.State.Attempts || tries > p.Attempts {
			t.Fatalf("tries: got %d, state says %d, want at most %d", tries, last.State.Attempts, p.Attempts)
		}
	})
}
