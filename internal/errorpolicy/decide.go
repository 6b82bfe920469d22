package errorpolicy

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"

	"prodigy/internal/retry"
)

// Outcome is the result of one attempt of an item, as far as the policy needs it.
type Outcome struct {
	Success bool
	Failure retry.Failure // when not Success
	Handled bool          // the custom handler ran and succeeded
	Retry   retry.State   // of the item, before this outcome
}

// Decision is what follows a failed attempt of an item.
type Decision struct {
	Action Action         // any but Custom
	Retry  retry.Decision // with Action Retry: when; in any case the Type of the failure and the State to carry
	Reason string         // why this action, in words for people
}

// Decide returns what follows the failure in o. It is pure except for rnd, the source of jitter. It does not
// depend on thresholds: the item that exceeds one is dead-lettered like any other, and a retry decided while
// the job stops waits for the resume.
func (m *Machine) Decide(o Outcome, now time.Time, rnd *rand.Rand) Decision {
	if o.Success {
		panic("BUG: there is nothing to decide about a success")
	}
	d := Decision{Action: DLQ, Retry: retry.Decision{Type: retry.Classify(o.Failure), State: o.Retry}}
	d.Retry.State.Attempts++
	if m.policy.OnOOM == OOMAlone && d.Retry.Type == retry.TypeOOM && !o.Retry.Alone {
		d.Action, d.Retry.Retry, d.Retry.State.Alone = Retry, true, true
		d.Reason = "it was killed for lack of memory, and runs again alone, after all others"
		return d
	}
	if m.policy.OnTimeout != "" && o.Failure.TimedOut {
		return m.onTimeout(d)
	}
	p := m.policy.Retries()
	if p == nil {
		return m.final(o, d)
	}
	d.Retry = p.Next(o.Retry, o.Failure, now, rnd)
	if d.Retry.Reason == retry.CircuitOpen {
		d.Retry.State.Attempts++ // a step of it was refused, but the attempt of the item ran
	}
	tries := d.Retry.State.Attempts
	if d.Retry.Retry && !o.Handled {
		d.Action = Retry
		d.Reason = fmt.Sprintf("try %d of %d failed", tries, p.Attempts)
		return d
	}
	d.Reason = refusal(d.Retry.Reason, tries)
	return m.final(o, d)
}

// GiveUp returns what follows for an item whose retry budget expired while it waited for its next attempt; o has its
// last failure.
func (m *Machine) GiveUp(o Outcome) Decision {
	d := Decision{Action: DLQ, Retry: retry.Decision{
		Type: retry.Classify(o.Failure), State: o.Retry,
		Reason: retry.Budget,
	}}
	d.Reason = refusal(retry.Budget, o.Retry.Attempts)
	if m.policy.OnItemFailure.Kind == Custom {
		return d // a handler runs at the end of an attempt, and none has begun
	}
	return m.final(o, d)
}

// final returns d with the action for an item that failed for good. The reason of d is why it is not run again, or
// empty if nothing ever is.
func (m *Machine) final(o Outcome, d Decision) Decision {
	a := m.policy.OnItemFailure
	d.Action = cmp.Or(a.Kind, DLQ)
	if d.Action.RunsAgain() { // it has failed for good, or it would run for ever
		d.Action = DLQ
	}
	why := "on_item_failure is " + string(d.Action)
	if a.Kind == Custom {
		d.Action, why = handled(o, d.Retry.Type, a.Handler)
	}
	switch {
	case d.Reason == "":
		d.Reason = why
	case d.Action != DLQ || a.Kind == Custom:
		d.Reason += "; " + why
	}
	return d
}

// handled returns what a custom handler made of a failure.
func handled(o Outcome, t retry.Type, handler string) (action Action, why string) {
	switch {
	case o.Handled:
		return Skip, fmt.Sprintf("handled by %s", handler)
	case t.AfterAttempt():
		return DLQ, fmt.Sprintf("the handler %s was not run: it handles failed attempts, and this one had succeeded", handler)
	}
	return DLQ, fmt.Sprintf("handler %s did not handle it", handler)
}

// refusal explains why an item is not run again after that many tries.
func refusal(r retry.Reason, tries int) string {
	switch r {
	case retry.NotRetryable:
		return "nothing in retry_on matches the failure"
	case retry.Budget:
		return "retry budget exhausted"
	case retry.CircuitOpen:
		return "the circuit breaker of a step is open"
	case retry.Permanent:
		return "retrying would fail the same way"
	case retry.Exhausted:
		return fmt.Sprintf("all %d attempts failed", tries)
	}
	return ""
}

// TimeoutAction is what happens to an item after a timeout of its agent or of one of its commands.
type TimeoutAction string

const (
	TimeoutDLQ        TimeoutAction = "dlq"
	TimeoutSkip       TimeoutAction = "skip"
	TimeoutFail       TimeoutAction = "fail"               // dead-lettered, and the job stops
	GracefulTerminate TimeoutAction = "graceful_terminate" // a longer time to clean up, then as TimeoutDLQ
)

// onTimeout returns d with the action that timeout_action names.
func (m *Machine) onTimeout(d Decision) Decision {
	d.Reason = fmt.Sprintf("timeout_action is %s", m.policy.OnTimeout)
	switch m.policy.OnTimeout {
	case TimeoutDLQ, GracefulTerminate:
		d.Action = DLQ
	case TimeoutSkip:
		d.Action = Skip
	case TimeoutFail:
		d.Action = Stop
	default:
		panic("BUG: unknown timeout_action " + string(m.policy.OnTimeout))
	}
	return d
}
