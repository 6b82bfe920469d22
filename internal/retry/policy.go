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
	// tries in all, the first included
	Attempts int `yaml:"attempts" alias:"max_attempts"`

	// how the delays grow
	Backoff Backoff `yaml:"backoff"`

	// D of the backoff: the delay before the first retry
	InitialDelay time.Duration `yaml:"initial_delay"`

	// cap of the delays, before jitter; default 30s, or `--max-delay`
	MaxDelay time.Duration `yaml:"max_delay"`

	// how the delays are spread; default false
	Jitter Jitter `yaml:"jitter"`

	// with `jitter: true`: a delay d is drawn from d·(1−f) to d·(1+f)
	JitterFactor float64 `yaml:"jitter_factor"`

	// which failures are tried again: any match is enough; default any failure that is not permanent
	RetryOn []Matcher `yaml:"retry_on"`

	// whether the next try waits as long as the service has asked for, if that is longer than the backoff; with
	// a jitter, the backoff comes on top. `true` reads the header of HTTP; default false
	RetryAfter *After `yaml:"retry_after"`

	// how long all the waiting may take together; after a resume no try begins so long after the first failure
	// or later; default no limit
	Budget time.Duration `yaml:"retry_budget"`

	// what follows when the tries are used up; default stop
	OnFailure FailureAction `yaml:"on_failure"`

	// refuses to run the step while it keeps failing, for all agents at once; default none
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
	found.Require(p.Attempts >= 1, "attempts", "attempts must be at least 1, got %d: it counts the first try too",
		p.Attempts)
	found.Require(p.InitialDelay >= 0, "initial_delay", "initial_delay must not be negative")
	found.Require(p.MaxDelay > 0, "max_delay",
		"max_delay must be more than 0s, not %s: for no waiting, set initial_delay to 0s",
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
	p.OnFailure.check(&found)
	check.Block(&found, "circuit_breaker", p.CircuitBreaker)
	return found
}

// check adds what is wrong with a. A Command without Fallback cannot be written.
func (a FailureAction) check(found *check.Findings) {
	switch a.Kind {
	case "", Stop, Continue:
	case Fallback:
		found.Require(a.Command != "", "on_failure",
			`on_failure: fallback needs a command, as in {fallback: {command: "…"}}`)
	default:
		found.Require(false, "on_failure",
			`unknown on_failure %q (want stop, continue or {fallback: {command: "…"}})`, a.Kind)
	}
}
