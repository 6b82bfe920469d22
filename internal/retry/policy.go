// Package retry decides whether a failure is followed by another attempt, and when.
//
// It never sleeps, logs or runs anything: failures and the clock go in, decisions come out.
package retry

import (
	"slices"
	"strings"
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
	JitterFactor float64 `yaml:"jitter_factor" range:"0 1"`

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

// Check finds what is wrong with p as a block of a workflow file, where an absent key has its value from Default. The
// blocks in it have a Check of their own.
func (p Policy) Check(found *check.Findings) {
	found.Require(p.Attempts >= 1, "attempts", "attempts must be at least 1, got %d: the first attempt counts too",
		p.Attempts)
	found.Require(p.MaxDelay > 0, "max_delay",
		"max_delay must be more than 0s, got %s; to retry without delay, set initial_delay to 0s",
		duration.Format(p.MaxDelay))
}

// linter collects findings about keys of a policy that have no effect.
type linter struct {
	Policy
	check.Linter
}

// Ineffective returns findings about keys of p that have no effect, or not the one they seem to have. written
// reports whether a key is in the file; others are ignored.
func (p Policy) Ineffective(written func(key string) bool) []check.Finding {
	l := &linter{Policy: p, Linter: check.Linter{Written: written}}
	if p.Attempts == 1 {
		// on_failure and circuit_breaker hold for a single try, too.
		for key := range strings.FieldsSeq(`backoff initial_delay max_delay jitter jitter_factor retry_on
			retry_after retry_budget`) {
			l.Add("%s has no effect with attempts: 1: there are no retries", []any{key}, key)
		}
		return l.Found
	}
	l.budget()
	l.cap()
	if b := l.Backoff; b.Strategy == Custom || b.Delay != nil || b.Initial != nil {
		l.Add("initial_delay has no effect: backoff lists its own delays", nil, "initial_delay")
	}
	if l.Jitter != Proportional {
		l.Add("jitter_factor has no effect without jitter: true", nil, "jitter_factor")
	}
	return l.Found
}

// budget finds tries that never run because the budget is too short for their waits.
func (l *linter) budget() {
	fit := 1 + len(l.Spreads())
	if l.Budget <= 0 || fit >= min(l.Attempts, mostListed) {
		return
	}
	may := "ends"
	if l.Jitter != NoJitter {
		may = "may end"
	}
	l.Add("retry_budget %s %s the retries after %s of %d: the next delay would exceed it",
		[]any{duration.Format(l.Budget), may, check.Counted(fit, "try"), l.Attempts}, "retry_budget", "attempts")
}

// cap finds a first delay that is already above max_delay. That later ones are is what max_delay is for.
func (l *linter) cap() {
	first := l.first()
	if l.Backoff.Strategy == Custom {
		first = slices.Max(append([]time.Duration{0}, l.Backoff.Delays...))
	}
	if first > l.limit() {
		l.Add("max_delay shortens a delay of %s to %s", []any{duration.Format(first), duration.Format(l.limit())},
			"max_delay", "initial_delay", "backoff")
	}
}
