package retry

import (
	"math/rand/v2"
	"time"
)

// State is what the retries of one step or item have used so far. The zero State is before the first failure.
type State struct {
	Attempts  int           // tries made
	Waited    time.Duration // sum of the delays decided
	Previous  time.Duration // the last delay decided, for decorrelated jitter
	ExpiresAt time.Time     // first failure + budget; zero without a budget
	Alone     bool          // the tries from now on run while nothing else does
	Resumed   bool          // the job was resumed since the first failure: ExpiresAt counts
}

// Reason says why there is no further attempt.
type Reason string

const (
	Exhausted    Reason = "exhausted"
	NotRetryable Reason = "not_retryable" // no matcher matched
	Budget       Reason = "budget"
	CircuitOpen  Reason = "circuit_open"
	Permanent    Reason = "permanent"
)

// Decision says whether a failed attempt is followed by another, and when.
type Decision struct {
	Retry  bool
	Reason Reason // when not Retry
	Type   Type   // of the failure

	// the entry of retry_on that recognised the failure, as it is written there; empty when none did
	Matched string

	Computed time.Duration // before jitter
	Asked    time.Duration // that the service wants to be left alone, if it has said so

	// to wait now, what the service asks for at least; with Reason Budget: what the budget had no room for
	Delay time.Duration

	BudgetLeft time.Duration // after this delay; meaningless without a budget
	State      State         // to carry to the next failure
}

// Next decides what follows failure f, after s.Attempts earlier tries. It is pure except for rnd, the source of jitter.
// A failure of type circuit_open does not count as a try: the breaker refused to run it.
func (p Policy) Next(s State, f Failure, now time.Time, rnd *rand.Rand) Decision {
	d := Decision{Type: Classify(f), BudgetLeft: p.Budget - s.Waited, State: s}
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
	d.Delay = p.spread(d.Computed, s.Previous, rnd)
	if d.Asked = p.asked(f, now); p.RetryAfter != nil && d.Asked > 0 && p.Jitter != NoJitter {
		d.Delay = plus(d.Asked, d.Delay) // or all whom a service has told the same would come back at once
	}
	d.Delay = max(d.Delay, d.Asked)
	if p.overBudget(d, now) {
		d.Reason = Budget
		return d
	}
	d.Retry = true
	d.BudgetLeft -= d.Delay
	d.State.Waited = plus(s.Waited, d.Delay)
	d.State.Previous = d.Delay
	return d
}

// refusal returns why failure f is not retried, or "", and sets the matcher of d that recognised it.
func (p Policy) refusal(d *Decision, f Failure) Reason {
	m, ok := p.matched(f)
	if ok {
		d.Matched = m.String()
	}
	switch {
	case d.State.Attempts >= p.Attempts:
		return Exhausted
	case ok:
		return ""
	case permanent(f, d.Type):
		return Permanent
	case len(p.RetryOn) > 0:
		return NotRetryable
	}
	return ""
}

// overBudget reports whether d.Delay exceeds what is left of the budget.
func (p Policy) overBudget(d Decision, now time.Time) bool {
	return p.Budget > 0 && d.Delay > d.BudgetLeft || p.Expired(d.State, now.Add(d.Delay))
}

// Expired reports whether the budget does not allow a try that begins at that time. Wall-clock time counts only after
// a resume: within a run it would include the time of the tries.
func (p Policy) Expired(s State, at time.Time) bool {
	return p.Budget > 0 && s.Resumed && !s.ExpiresAt.IsZero() && !at.Before(s.ExpiresAt)
}
