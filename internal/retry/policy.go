// Package retry decides whether a failure is followed by another attempt, and when.
//
// It never sleeps, logs or runs anything: failures and the clock go in, decisions come out.
package retry

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/limit"
)

// Policy is a retry_config block. The zero Policy never retries.
type Policy struct {
	Attempts       int                  `yaml:"attempts" alias:"max_attempts"` // tries in all, the first included
	Backoff        Backoff              `yaml:"backoff"`                       // how the delays grow
	InitialDelay   time.Duration        `yaml:"initial_delay"`                 // D of the backoff: the delay before the first retry
	MaxDelay       time.Duration        `yaml:"max_delay"`                     // cap of the delays, before jitter; default 30s, or `--max-delay`
	Jitter         Jitter               `yaml:"jitter"`                        // how the delays are spread; default false
	JitterFactor   float64              `yaml:"jitter_factor"`                 // with `jitter: true`: a delay d is drawn from d·(1−f) to d·(1+f)
	RetryOn        []Matcher            `yaml:"retry_on"`                      // which failures are tried again: any match is enough; default any failure that is not permanent
	RetryAfter     *After               `yaml:"retry_after"`                   // whether the next try waits as long as the service has asked for, if that is longer than the backoff; with a jitter, the backoff comes on top. `true` reads the header of HTTP; default false
	Budget         time.Duration        `yaml:"retry_budget"`                  // how long all the waiting may take together; after a resume no try begins so long after the first failure or later; default no limit
	OnFailure      FailureAction        `yaml:"on_failure"`                    // what follows when the tries are used up; default stop
	CircuitBreaker *limit.BreakerConfig `yaml:"circuit_breaker"`               // refuses to run the step while it keeps failing, for all agents at once; default none
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
	Kind    ActionKind
	Command string // with Fallback: the shell command
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
	var found []check.Finding
	report := func(ok bool, field, format string, args ...any) {
		if !ok {
			found = append(found, check.Finding{Field: field, Message: fmt.Sprintf(format, args...)})
		}
	}
	report(p.Attempts >= 1, "attempts", "attempts must be at least 1, not %d: it counts the first try too", p.Attempts)
	report(p.InitialDelay >= 0, "initial_delay", "initial_delay must not be negative")
	report(p.MaxDelay > 0, "max_delay", "max_delay must be more than 0s, not %s: for no waiting, set initial_delay to 0s",
		duration.Format(p.MaxDelay))
	report(p.Jitter == NoJitter || slices.Contains(jitters, p.Jitter), "jitter", "unknown jitter %q (want %s)", p.Jitter, jitterForms)
	report(p.JitterFactor >= 0 && p.JitterFactor <= 1, "jitter_factor", "jitter_factor must be from 0 to 1, not %v", p.JitterFactor)
	report(p.Budget >= 0, "retry_budget", "retry_budget must not be negative")
	found = append(found, check.Under("backoff", p.Backoff.Check())...)
	found = append(found, checkMatchers(p.RetryOn)...)
	if p.RetryAfter != nil {
		found = append(found, check.Under("retry_after", p.RetryAfter.check())...)
	}
	found = append(found, p.OnFailure.check()...)
	if p.CircuitBreaker != nil {
		found = append(found, check.Under("circuit_breaker", p.CircuitBreaker.Check())...)
	}
	return found
}

func checkMatchers(matchers []Matcher) []check.Finding {
	var found []check.Finding
	for i, m := range matchers {
		if err := m.Check(); err != nil {
			found = append(found, check.Finding{Field: "retry_on." + strconv.Itoa(i), Message: err.Error()})
		}
	}
	return found
}

func (a FailureAction) check() []check.Finding {
	switch a.Kind {
	case "", Stop, Continue:
		return nil
	case Fallback:
		if a.Command != "" {
			return nil
		}
		return []check.Finding{{Field: "on_failure", Message: `on_failure: fallback needs a command, as in {fallback: {command: "…"}}`}}
	}
	return []check.Finding{{Field: "on_failure", Message: fmt.Sprintf(
		`unknown on_failure %q (want stop, continue or {fallback: {command: "…"}})`, a.Kind)}}
}
