// Package retry decides whether a failure is followed by another attempt, and when.
//
// It never sleeps, logs or runs anything: failures and the clock go in, decisions come out.
package retry

import (
	"slices"
	"strconv"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/limit"
)

// Policy is a retry_config block. The zero Policy never retries.
type Policy struct {
	// maximum number of attempts, including the first
	Attempts int `yaml:"attempts" alias:"max_attempts"`

	// how delays grow
	Backoff Backoff `yaml:"backoff"`

	// delay before the first retry (D of the backoff)
	InitialDelay time.Duration `yaml:"initial_delay"`

	// maximum delay, before jitter; default 30s, or `--max-delay`
	MaxDelay time.Duration `yaml:"max_delay"`

	// how delays are randomized; default false
	Jitter Jitter `yaml:"jitter"`

	// f of `jitter: true`, which draws a delay between d·(1−f) and d·(1+f)
	JitterFactor float64 `yaml:"jitter_factor"`

	// failures to retry, if any entry matches; default all failures that are not permanent
	RetryOn []Matcher `yaml:"retry_on"`

	// whether to wait as long as the service asks, if that is longer than the backoff; with jitter, the backoff
	// is added. `true` reads the HTTP header; default false
	RetryAfter *After `yaml:"retry_after"`

	// maximum total delay of all retries; after a resume, maximum time since the first failure; default no
	// limit
	Budget time.Duration `yaml:"retry_budget"`

	// what happens after the last failed attempt; default stop
	OnFailure FailureAction `yaml:"on_failure"`

	// circuit breaker, shared by all items, which rejects the step while it keeps failing; default none
	CircuitBreaker *limit.BreakerConfig `yaml:"circuit_breaker"`
}

const defaultMaxDelay = 30 * time.Second

// Default returns the policy of an empty retry_config block: 3 attempts, exponential backoff from 1s up to 30s.
func Default() Policy {
	return Policy{
		Attempts: 3, Backoff: Backoff{Strategy: Exponential},
		InitialDelay: time.Second, MaxDelay: defaultMaxDelay, JitterFactor: 0.3,
		OnFailure: FailureAction{Kind: Stop},
	}
}

// FailureAction is what happens after the last attempt has failed.
type FailureAction struct {
	Kind ActionKind

	// Command is the shell command of a Fallback. Its result is that of the step.
	Command string
}

// ActionKind is the kind of a FailureAction. The empty one means Stop.
type ActionKind string

const (
	Stop     ActionKind = "stop"
	Continue ActionKind = "continue"
	Fallback ActionKind = "fallback"
)

// Check returns what is wrong with p as a block of a workflow file, where an absent key has its value from Default.
func (p Policy) Check() []check.Finding {
	var found check.Findings
	found.Require(p.Attempts >= 1, "attempts", "attempts must be at least 1, got %d: the first attempt counts too",
		p.Attempts)
	found.Require(p.InitialDelay >= 0, "initial_delay", "initial_delay must not be negative")
	found.Require(p.MaxDelay > 0, "max_delay",
		"max_delay must be more than 0s, got %s; to retry without delay, set initial_delay to 0s",
		duration.Format(p.MaxDelay))
	found.Require(p.Jitter == NoJitter || slices.Contains(jitters, p.Jitter), "jitter", "unknown jitter %q (want %s)",
		p.Jitter, jitterForms)
	found.Require(p.JitterFactor >= 0 && p.JitterFactor <= 1, "jitter_factor",
		"jitter_factor must be between 0 and 1, got %v",
		p.JitterFactor)
	found.Require(p.Budget >= 0, "retry_budget", "retry_budget must not be negative")
	found = append(found, check.Under("backoff", p.Backoff.Check())...)
	for i, m := range p.RetryOn {
		err := m.Check()
		found.Require(err == nil, "retry_on."+strconv.Itoa(i), "%v", err)
	}
	check.Block(&found, "retry_after", p.RetryAfter)
	switch a := p.OnFailure; a.Kind {
	case "", Stop, Continue:
	case Fallback:
		found.Require(a.Command != "", "on_failure",
			`on_failure: fallback needs a command, as in {fallback: {command: "…"}}`)
	default:
		found.Require(false, "on_failure",
			`unknown on_failure %q (want stop, continue or {fallback: {command: "…"}})`, a.Kind)
	}
	check.Block(&found, "circuit_breaker", p.CircuitBreaker)
	return found
}
