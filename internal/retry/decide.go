package retry

import (
	"math/rand/v2"
	"slices"
	"time"

	"prodigy/internal/duration"
)

// State is what the retries of one step or item have used so far. The zero State is before the first failure.
type State struct {
	// Attempts counts the tries made. A failure of type circuit_open is not among them.
	Attempts int `json:"attempts"`

	// Waited is the sum of the delays decided, for the budget.
	Waited duration.Millis `json:"waited_ms"`

	// Previous is the last delay decided, for decorrelated jitter.
	Previous duration.Millis `json:"previous_ms"`

	// Alone reports whether the tries from now on run while nothing else does.
	Alone bool `json:"alone,omitempty"`

	// Asked is how long the service wanted to be left alone after the last failure, or 0 if it has not said so.
	Asked duration.Millis `json:"asked_ms,omitempty"`

	// ExpiresAt is the time of the first failure plus the budget. It is zero without a budget.
	ExpiresAt time.Time `json:"budget_expires_at,omitzero"`

	// Resumed reports whether the job was resumed since the first failure, so that ExpiresAt counts.
	Resumed bool `json:"resumed,omitempty"`
}

// Reason says why there is no further attempt.
type Reason string

const (
	// Exhausted means that the failure was that of the last of the attempts.
	Exhausted Reason = "exhausted"

	// NotRetryable means that the policy has a retry_on and no entry of it matched.
	NotRetryable Reason = "not_retryable"

	// Budget means that the next delay does not fit in what is left of the retry_budget.
	Budget Reason = "budget"

	// CircuitOpen means that a breaker refused to run the step. When it is tried again is up to the breaker.
	CircuitOpen Reason = "circuit_open"

	// Permanent means that another attempt would fail in the same way. An entry of retry_on that matches overrules it.
	Permanent Reason = "permanent"
)

// Headline returns the message of a failure that is not tried again for a reason. It begins with what the last try that
// ran has said of itself, since that says what is wrong. Last is empty if none ran. Refusal is what a breaker says, if it
// kept a try from running.
func Headline(why Reason, last, refusal string) string {
	switch {
	case why == Budget:
		return "retry budget exhausted: " + last
	case last == "":
		return refusal
	case refusal != "":
		return last + "; then " + refusal
	}
	return last
}

// Decision says whether a failed attempt is followed by another, and when.
type Decision struct {
	// Retry reports whether there is another attempt. If not, Reason says why.
	Retry  bool
	Reason Reason

	// Type is that of the failure.
	Type Type

	// Matched is the entry of retry_on that recognised the failure, as it is written there. It is empty if none did.
	Matched string

	// Computed is the delay by the formula of the backoff, before jitter.
	Computed time.Duration

	// Delay is how long to wait now, at least what the service asks for. With Reason Budget it is the delay that the
	// budget had no room for.
	Delay time.Duration

	// BudgetLeft is what is left of the budget after this delay. It means nothing without a budget.
	BudgetLeft time.Duration

	// State is for the next call of Next.
	State State
}

// Next decides what follows failure f, after s.Attempts earlier tries. It is pure except for rnd, the source of jitter.
// A failure of type circuit_open does not count as a try: the breaker refused to run it.
func (p Policy) Next(s State, f Failure, now time.Time, rnd *rand.Rand) Decision {
	d := Decision{Type: Classify(f), BudgetLeft: p.Budget - time.Duration(s.Waited), State: s}
	if d.Type == TypeCircuitOpen {
		d.Reason = CircuitOpen
		return d
	}
	d.State.Attempts++
	if p.Budget > 0 && s.ExpiresAt.IsZero() {
		d.State.ExpiresAt = now.Add(p.Budget)
	}
	if d.Reason = p.refusal(&d, f); d.Reason != "" {
		return d
	}
	d.Computed = p.Computed(d.State.Attempts)
	d.Delay = p.spread(d.Computed, time.Duration(s.Previous), rnd)
	// A service tells the same time to all. With a jitter the backoff comes on top, so that they do not come back
	// together.
	// What the step itself knows counts more than what was printed.
	asked := f.RetryAfter
	if asked <= 0 && p.RetryAfter != nil {
		asked, _ = p.RetryAfter.Asked(now, f.Stdout, f.Stderr)
	}
	if p.RetryAfter != nil && asked > 0 && p.Jitter != NoJitter {
		d.Delay = duration.Plus(asked, d.Delay)
	}
	d.Delay = max(d.Delay, asked)
	// More than what is left of the budget, or it ends after the budget of a resumed job has expired.
	if p.Budget > 0 && d.Delay > d.BudgetLeft || p.Expired(d.State, now.Add(d.Delay)) {
		d.Reason = Budget
		return d
	}
	d.Retry = true
	d.BudgetLeft -= d.Delay
	d.State.Waited = duration.Millis(duration.Plus(time.Duration(s.Waited), d.Delay))
	d.State.Previous, d.State.Asked = duration.Millis(d.Delay), duration.Millis(asked)
	return d
}

// refusal returns why failure f is not retried, or "", and sets the matcher of d that recognised it. The budget is
// checked later, when the delay is known.
func (p Policy) refusal(d *Decision, f Failure) Reason {
	i := slices.IndexFunc(p.RetryOn, func(m Matcher) bool { return m.matches(f) })
	if i >= 0 {
		d.Matched = p.RetryOn[i].String()
	}
	switch {
	case d.State.Attempts >= p.Attempts:
		return Exhausted
	case i >= 0:
		return ""
	case permanent(f, d.Type):
		return Permanent
	case len(p.RetryOn) > 0:
		return NotRetryable
	}
	return ""
}

// Expired reports whether the budget does not allow a try that begins at that time. Wall-clock time counts only after
// a resume: within a run it would include the time of the tries.
func (p Policy) Expired(s State, at time.Time) bool {
	return p.Budget > 0 && s.Resumed && !s.ExpiresAt.IsZero() && !at.Before(s.ExpiresAt)
}
