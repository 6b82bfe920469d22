package limit

import (
	"time"

	"prodigy/internal/check"
)

// BreakerConfig is a circuit_breaker block.
type BreakerConfig struct {
	FailureThreshold int           `yaml:"failure_threshold" least:"1"`  // number of consecutive failures that open it
	SuccessThreshold int           `yaml:"success_threshold" least:"1"`  // number of successful probes that close it
	Timeout          time.Duration `yaml:"timeout"`                      // how long it stays open before probing
	HalfOpenRequests int           `yaml:"half_open_requests" least:"1"` // maximum number of concurrent probes

	// what happens to items while it is open: `reject` dead-letters them without running them, with `wait` they
	// wait without a slot; default reject, with `per` wait
	OnOpen OnOpen `yaml:"on_open" words:"reject wait"`

	// string such as `${item.host}`: items with the same value share a circuit breaker, which affects no other
	// items. Items without a value share one; default one breaker for all items
	Per string `yaml:"per"`
}

// OnOpen says what an open workflow-level breaker does to the next item.
type OnOpen string

const (
	Reject OnOpen = "reject" // the item is dead-lettered without being run
	Wait   OnOpen = "wait"   // dispatch is held until the breaker half-opens
)

// DefaultBreaker returns the configuration of an empty circuit_breaker block.
func DefaultBreaker() BreakerConfig {
	return BreakerConfig{
		FailureThreshold: 5, SuccessThreshold: 3, Timeout: 30 * time.Second, HalfOpenRequests: 3,
		OnOpen: Reject,
	}
}

// Check finds what is wrong with c as a block of a workflow file, where an absent key has its default.
func (c BreakerConfig) Check(found *check.Findings) {
	found.Require(c.Timeout > 0, "timeout", "timeout must be more than 0s, not 0s")
}
