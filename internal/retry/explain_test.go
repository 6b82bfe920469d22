package retry

import (
	"testing"
	"time"
)

func TestExplainSaysHowADelayComesAbout(t *testing.T) {
	two := 2 * time.Second
	for _, c := range []struct {
		policy Policy
		n      int
		want   string
	}{
		{Policy{InitialDelay: time.Second}, 1, "exponential backoff: 1s"},
		{Policy{InitialDelay: time.Second}, 7, "exponential backoff: 30s, which is max_delay"},
		{Policy{InitialDelay: time.Second, Backoff: Backoff{Strategy: Linear}}, 3, "linear backoff: 3s"},
		{
			Policy{InitialDelay: time.Second, Jitter: FullJitter},
			2, "exponential backoff: 2s; jitter full: between 0s and 2s",
		},
		{
			Policy{InitialDelay: time.Second, Jitter: Proportional, JitterFactor: 0.5},
			2, "exponential backoff: 2s; jitter proportional: between 1s and 3s",
		},
		{
			Policy{InitialDelay: time.Second, Jitter: Decorrelated, MaxDelay: 5 * time.Second},
			2, "exponential backoff: 2s; jitter decorrelated: between 1s and 5s",
		},
	} {
		if got := c.policy.Explain(c.n, two); got != c.want {
			t.Errorf("Explain(%d) = %q, want %q", c.n, got, c.want)
		}
	}
}
