package errorpolicy

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatAnErrorPolicySaysWithoutEffectIsReported(t *testing.T) {
	zero, no := new(0.0), new(false)
	for name, test := range map[string]struct {
		policy Policy
		want   map[string]string // by key
	}{
		"nothing":                {Policy{}, nil},
		"limits that can be met": {Policy{MaxFailures: 6, FailureThreshold: new(0.5)}, nil},
		"skip counts nothing": {Policy{OnItemFailure: ItemAction{Kind: Skip}, MaxFailures: 2}, map[string]string{
			"max_failures": "max_failures has no effect: on_item_failure: skip does not count failures",
		}},
		"stop": {Policy{OnItemFailure: ItemAction{Kind: Stop}, MaxFailures: 2}, map[string]string{
			"max_failures": "max_failures has no effect: on_item_failure: stop stops the job at the first failure",
		}},
		"the first one stops": {Policy{ContinueOnFailure: no, MaxFailures: 2}, map[string]string{
			"max_failures": "max_failures has no effect: continue_on_failure: false stops the job at the first failure",
		}},
		"both say one":   {Policy{ContinueOnFailure: no, MaxFailures: 1}, nil},
		"handled is not": {Policy{ContinueOnFailure: no, MaxFailures: 2, OnItemFailure: ItemAction{Kind: Custom, Handler: "h"}}, nil},
		"none may fail": {Policy{FailureThreshold: zero}, map[string]string{
			"failure_threshold": "failure_threshold: 0 stops the job at the first failure, but only after 10 finished items; to stop immediately use continue_on_failure: false",
		}},
	} {
		got := map[string]string{}
		for _, f := range test.policy.Ineffective(test.policy.wrote) {
			got[f.Field] = f.Message
		}
		if !maps.Equal(test.want, got) {
			t.Errorf("%s (-want +got):\n%s", name, cmp.Diff(test.want, got))
		}
	}
}

// wrote reports whether a key of p was written.
func (p Policy) wrote(key string) bool {
	return map[string]bool{
		"max_failures": p.MaxFailures > 0, "failure_threshold": p.FailureThreshold != nil, "circuit_breaker": p.CircuitBreaker != nil,
	}[key]
}
