package errorpolicy

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/retry"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func on(kind Action) Policy { return Policy{OnItemFailure: ItemAction{Kind: kind}} }

// An item that no policy tries again must come to an end, whatever the action is.
func TestEveryItemActionEndsAnItem(t *testing.T) {
	for _, r := range actions {
		m := New(Policy{OnItemFailure: ItemAction{Kind: r.action}, RetryConfig: &retry.Policy{Attempts: 1}})
		d := m.Decide(Outcome{Failure: retry.Failure{ExitCode: 1}}, noon, nil)
		if d.Action.RunsAgain() || d.Action.Status() == Pending {
			t.Errorf("%s: got %q after the last try, want an action that settles the item", r.action, d.Action)
		}
	}
}

func TestItemActionDecidesWhatHappensToTheItem(t *testing.T) {
	custom := Policy{OnItemFailure: ItemAction{Custom, "notify"}}
	again := func(p Policy) Policy {
		p.RetryConfig = new(retry.Default())
		return p
	}
	used := Outcome{Retry: retry.State{Attempts: 2}}
	handled := used
	handled.Handled = true
	for name, c := range map[string]struct {
		policy  Policy
		outcome Outcome
		want    Action
		reason  string
	}{
		"zero policy":             {Policy{}, Outcome{}, DLQ, "on_item_failure is dlq"},
		"dlq":                     {on(DLQ), Outcome{}, DLQ, "on_item_failure is dlq"},
		"skip":                    {on(Skip), Outcome{}, Skip, "on_item_failure is skip"},
		"stop":                    {on(Stop), Outcome{}, Stop, "on_item_failure is stop"},
		"custom that succeeded":   {custom, Outcome{Handled: true}, Skip, "handled by notify"},
		"custom that failed":      {custom, Outcome{}, DLQ, "handler notify did not handle it"},
		"retry":                   {on(Retry), Outcome{}, Retry, "try 1 of 3 failed"},
		"retry of a mistake":      {on(Retry), Outcome{Failure: retry.Failure{ExitCode: 127}}, DLQ, "retrying would fail the same way"},
		"zero policy, retried":    {again(Policy{}), Outcome{}, Retry, "try 1 of 3 failed"},
		"dlq, retried":            {again(on(DLQ)), Outcome{}, Retry, "try 1 of 3 failed"},
		"skip, retried":           {again(on(Skip)), Outcome{}, Retry, "try 1 of 3 failed"},
		"stop, retried":           {again(on(Stop)), Outcome{}, Retry, "try 1 of 3 failed"},
		"custom, retried":         {again(custom), Outcome{}, Retry, "try 1 of 3 failed"},
		"dlq, used up":            {again(on(DLQ)), used, DLQ, "all 3 attempts failed"},
		"skip, used up":           {again(on(Skip)), used, Skip, "all 3 attempts failed; on_item_failure is skip"},
		"stop, used up":           {again(on(Stop)), used, Stop, "all 3 attempts failed; on_item_failure is stop"},
		"custom, used up":         {again(custom), handled, Skip, "all 3 attempts failed; handled by notify"},
		"custom, failed for good": {again(custom), used, DLQ, "all 3 attempts failed; handler notify did not handle it"},
		"retry, tries used up":    {on(Retry), Outcome{Retry: retry.State{Attempts: 2}}, DLQ, "all 3 attempts failed"},
		"retry, step refused":     {on(Retry), Outcome{Failure: retry.Failure{Type: retry.TypeCircuitOpen}}, DLQ, "the circuit breaker of a step is open"},
	} {
		got := New(c.policy).Decide(c.outcome, noon, nil)
		if got.Action != c.want || got.Reason != c.reason {
			t.Errorf("%s: got %q because %q, want %q because %q", name, got.Action, got.Reason, c.want, c.reason)
		}
		if want := c.outcome.Retry.Attempts + 1; got.Retry.State.Attempts != want {
			t.Errorf("%s: tries: got %d, want %d", name, got.Retry.State.Attempts, want)
		}
		if want := retry.Classify(c.outcome.Failure); got.Retry.Type != want {
			t.Errorf("%s: type: got %q, want %q", name, got.Retry.Type, want)
		}
	}
}

func TestRetryConfigSetsTriesAndDelays(t *testing.T) {
	p := on(Retry)
	p.RetryConfig = new(retry.Default())
	p.RetryConfig.Attempts = 4
	p.RetryConfig.Backoff = retry.Backoff{Strategy: retry.Exponential, Initial: new(time.Second), Multiplier: new(2.0)}
	m := New(p)
	var got []time.Duration
	d := m.Decide(Outcome{}, noon, nil)
	for ; d.Action == Retry; d = m.Decide(Outcome{Retry: d.Retry.State}, noon, nil) {
		got = append(got, d.Retry.Delay)
	}
	if diff := cmp.Diff(got, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}); diff != "" {
		t.Errorf("delays (-got +want):\n%s", diff)
	}
	if d.Action != DLQ || d.Retry.Reason != retry.Exhausted {
		t.Errorf("after the last try: got %q (%q), want dlq (exhausted)", d.Action, d.Retry.Reason)
	}
}

func TestRetryBudgetAndMatchersHoldForItemsToo(t *testing.T) {
	p := on(Retry)
	p.RetryConfig = new(retry.Default())
	p.RetryConfig.Budget = 500 * time.Millisecond
	if got := New(p).Decide(Outcome{}, noon, nil); got.Action != DLQ || got.Reason != "retry budget exhausted" {
		t.Errorf("budget: got %q because %q, want dlq because of the budget", got.Action, got.Reason)
	}
	p.RetryConfig = new(retry.Default())
	p.RetryConfig.RetryOn = []retry.Matcher{{Name: "network"}}
	if got := New(p).Decide(Outcome{}, noon, nil); got.Action != DLQ || got.Retry.Reason != retry.NotRetryable {
		t.Errorf("matcher: got %q (%q), want dlq (not_retryable)", got.Action, got.Retry.Reason)
	}
}
