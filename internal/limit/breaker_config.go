package limit

import (
	"time"

	"prodigy/internal/check"
)

// BreakerConfig is a circuit_breaker block.
type BreakerConfig struct {
	FailureThreshold int           `yaml:"failure_threshold"`  // failures one after another that open it
	SuccessThreshold int           `yaml:"success_threshold"`  // successful tests that close it again
	Timeout          time.Duration `yaml:"timeout"`            // how long it stays open before it is tested
	HalfOpenRequests int           `yaml:"half_open_requests"` // how many tests may run at once

	// what happens to items while it is open: `reject` makes them dead letters without running them, `wait` has
	// them wait without a slot; default reject, with `per` wait
	OnOpen OnOpen `yaml:"on_open"`

	// a text such as `${item.host}`: items for which it is the same have one breaker, each such group its own,
	// and an open one holds back nothing else. Items for which it cannot be told have one together; default one
	// breaker for all items
	Per string `yaml:"per"`
}

// OnOpen says what an open workflow-level breaker does to the next item.
type OnOpen string

const (
	Reject OnOpen = "reject" // the item is dead-lettered without being run
	Wait   OnOpen = "wait"   // dispatch is held until the breaker half-opens
)

// Words returns what can be written.
func (OnOpen) Words() []string { return check.Words(Reject, Wait) }

// DefaultBreaker returns the configuration of an empty circuit_breaker block.
func DefaultBreaker() BreakerConfig {
	return BreakerConfig{
		FailureThreshold: 5, SuccessThreshold: 3, Timeout: 30 * time.Second, HalfOpenRequests: 3,
		OnOpen: Reject,
	}
}

// Check returns what is wrong with c as a block of a workflow file. An absent block is not checked; an absent
// key has its default.
func (c BreakerConfig) Check() []check.Finding {
	var found check.Findings
	atLeastOne := func(key string, n int) { found.Require(n >= 1, key, "%s must be at least 1, got %d", key, n) }
	atLeastOne("failure_threshold", c.FailureThreshold)
	atLeastOne("success_threshold", c.SuccessThreshold)
	atLeastOne("half_open_requests", c.HalfOpenRequests)
	found.Require(c.Timeout > 0, "timeout", "timeout must be more than 0s, not %s", c.Timeout)
	return found
}
