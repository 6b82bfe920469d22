package retry

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWhatAPolicySaysWithoutEffectIsReported(t *testing.T) {
	two, minute := 2.0, time.Minute
	for name, test := range map[string]struct {
		change func(*Policy)
		keys   []string
		want   map[string]string // by key
	}{
		"nothing written": {func(p *Policy) { p.InitialDelay = time.Hour }, nil, nil},
		"a single try": {func(p *Policy) { p.Attempts = 1 }, []string{"attempts", "backoff", "jitter"}, map[string]string{
			"backoff": "backoff has no effect with attempts: 1: there are no retries",
			"jitter":  "jitter has no effect with attempts: 1: there are no retries",
		}},
		"a budget for two of five": {func(p *Policy) { p.Attempts, p.Budget = 5, 2*time.Second }, []string{"retry_budget"}, map[string]string{
			"retry_budget": "retry_budget 2s ends the retries after 2 tries of 5: the next delay would exceed it",
		}},
		"a budget for none": {func(p *Policy) { p.Budget = time.Millisecond }, []string{"attempts"}, map[string]string{
			"attempts": "retry_budget 1ms ends the retries after 1 try of 3: the next delay would exceed it",
		}},
		"a budget and jitter": {func(p *Policy) { p.Budget, p.Jitter = 3*time.Second, Proportional }, []string{"retry_budget"}, map[string]string{
			"retry_budget": "retry_budget 3s may end the retries after 2 tries of 3: the next delay would exceed it",
		}},
		"a budget that is enough": {func(p *Policy) { p.Budget = 3 * time.Second }, []string{"retry_budget"}, nil},
		"more tries than are looked at": {func(p *Policy) {
			p.Attempts, p.Budget, p.InitialDelay = 1_000_000, time.Hour, 0
		}, []string{"retry_budget"}, nil},
		"a cap below the first delay": {func(p *Policy) { p.MaxDelay = 500 * time.Millisecond }, []string{"max_delay", "initial_delay"}, map[string]string{
			"max_delay": "max_delay shortens a delay of 1s to 500ms",
		}},
		"the default cap": {func(p *Policy) { p.Backoff = Backoff{Strategy: Fixed, Delay: &minute} }, []string{"backoff"}, map[string]string{
			"backoff": "max_delay shortens a delay of 1m to 30s",
		}},
		"delays of its own": {func(p *Policy) { p.Backoff = Backoff{Strategy: Exponential, Initial: new(time.Second), Base: &two} }, []string{"initial_delay"}, map[string]string{
			"initial_delay": "initial_delay has no effect: backoff lists its own delays",
		}},
		"a factor without jitter": {func(*Policy) {}, []string{"jitter_factor"}, map[string]string{
			"jitter_factor": "jitter_factor has no effect without jitter: true",
		}},
		"a factor of full jitter": {func(p *Policy) { p.Jitter = FullJitter }, []string{"jitter", "jitter_factor"}, map[string]string{
			"jitter_factor": "jitter_factor has no effect without jitter: true",
		}},
	} {
		p := Default()
		test.change(&p)
		got := map[string]string{}
		for _, f := range p.Ineffective(func(key string) bool { return slices.Contains(test.keys, key) }) {
			got[f.Field] = f.Message
		}
		if !maps.Equal(test.want, got) {
			t.Errorf("%s (-want +got):\n%s", name, cmp.Diff(test.want, got))
		}
	}
}
