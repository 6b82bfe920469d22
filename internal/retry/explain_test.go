package retry

import (
	"testing"
	"time"
)

func TestExplainSaysHowADelayComesAbout(t *testing.T) {
	half, two := 500*time.Millisecond, 2*time.Second
	for _, c := range []struct {
		policy Policy
		n      int
		want   string
	}{
		{Policy{InitialDelay: time.Second}, 1, "exponential: 1s × 2^0 = 1s"},
		{Policy{InitialDelay: time.Second}, 7, "exponential: 1s × 2^6 = 1m4s, capped at max_delay 30s"},
		{Policy{InitialDelay: time.Second}, 9999, "exponential: 1s × 2^9998 = 30s"},
		{Policy{InitialDelay: time.Second, Backoff: Backoff{Strategy: Fixed}}, 3, "fixed: 1s"},
		{Policy{InitialDelay: time.Minute, Backoff: Backoff{Strategy: Fixed}}, 3, "fixed: 1m, capped at max_delay 30s"},
		{Policy{InitialDelay: time.Second, Backoff: Backoff{Strategy: Linear}}, 3, "linear: 3 × 1s = 3s"},
		{Policy{InitialDelay: time.Second, Backoff: Backoff{Strategy: Linear, Increment: &two}}, 2, "linear: 1s + 1 × 2s = 3s"},
		{Policy{Backoff: Backoff{Strategy: Linear, Initial: &two, Increment: &half}}, 2, "linear: 2s + 2 × 500ms = 3s"},
		{Policy{InitialDelay: time.Second, Backoff: Backoff{Strategy: Fibonacci}}, 5, "fibonacci: 1s × fib(5) = 5s"},
		{Policy{Backoff: Backoff{Strategy: Custom, Delays: []time.Duration{half}}}, 1, "custom: delay 1 of the list = 500ms"},
		{Policy{Backoff: Backoff{Strategy: Custom, Delays: []time.Duration{half}}}, 2, "custom: after the 1 delays of the list: max_delay = 30s"},
		{
			Policy{InitialDelay: time.Second, Jitter: FullJitter},
			2, "exponential: 1s × 2^1 = 2s; jitter full: between 0s and 2s",
		},
		{
			Policy{InitialDelay: time.Second, Jitter: Proportional, JitterFactor: 0.5},
			2, "exponential: 1s × 2^1 = 2s; jitter proportional: between 1s and 3s",
		},
		{
			Policy{InitialDelay: time.Second, Jitter: Decorrelated, MaxDelay: 5 * time.Second},
			2, "exponential: 1s × 2^1 = 2s; jitter decorrelated: between 1s and 5s",
		},
	} {
		if got := c.policy.Explain(c.n, two); got != c.want {
			t.Errorf("Explain(%d) = %q, want %q", c.n, got, c.want)
		}
	}
}
