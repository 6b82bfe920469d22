package retry

import "testing"

func TestTheHeadlineIsWhatTheLastTryThatRanSaid(t *testing.T) {
	const last, refusal = "exit code 7: connection refused", "the circuit breaker is open"
	for _, c := range []struct {
		name          string
		why           Reason
		last, refusal string
		want          string
	}{
		{"no attempts left", Exhausted, last, "", last},
		{"the budget is used up", Budget, last, "", "retry budget exhausted: " + last},
		{"an open breaker ended the retrying", CircuitOpen, last, refusal, last + "; then " + refusal},
		{"an open breaker refused the first try", CircuitOpen, "", refusal, refusal},
		{"the failure is that of an open breaker", CircuitOpen, refusal, "", refusal},
		{"another try would fail in the same way", Permanent, last, "", last},
	} {
		if got := Headline(c.why, c.last, c.refusal); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
