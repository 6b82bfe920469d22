package errorpolicy

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"

	"prodigy/internal/breaker"
	"prodigy/internal/retry"
)

// Outcome is the result of one attempt of an item, as far as the policy needs it.
type Outcome struct {
	ItemID  string
	Success bool
	Failure retry.Failure // when not Success
	Handled bool          // the custom handler ran and succeeded
	Retry   retry.State   // of the item, before this outcome
	Ticket  breaker.Ticket
}

// Decision is what follows a failed attempt of an item.
type Decision struct {
	Action Action         // any but Custom
	Retry  retry.Decision // with Action Retry: when; in any case the Type of the failure and the State to carry
	Reason string         // why this action, in words for people
}

// Decide returns what follows the failure in o. It is pure except for rnd, the source of jitter. It does not depend on thresholds: the
// item that exceeds one is dead-lettered like any other, and a retry decided while the job stops waits for the resume.
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
	if m.decidesTimeout(o) {
		return m.onTimeout(d)
	}
	switch a := m.policy.OnItemFailure; a.Kind {
	case Retry:
		return m.decideRetry(o, now, rnd)
	case Custom:
		if d.Retry.Type.AfterAttempt() {
			d.Reason = fmt.Sprintf("the handler %s is asked about what agents did, and this one was well", a.Handler)
			return d
		}
		d.Reason = fmt.Sprintf("the handler %s failed too", a.Handler)
		if o.Handled {
			d.Action = Skip
			d.Reason = fmt.Sprintf("the handler %s dealt with it", a.Handler)
		}
	default:
		d.Action = cmp.Or(a.Kind, DLQ)
		d.Reason = "on_item_failure is " + string(d.Action)
	}
	return d
}

func (m *Machine) decideRetry(o Outcome, now time.Time, rnd *rand.Rand) Decision {
	p := m.retryPolicy()
	d := Decision{Action: DLQ, Retry: p.Next(o.Retry, o.Failure, now, rnd)}
	if d.Retry.Reason == retry.CircuitOpen {
		d.Retry.State.Attempts++ // a step of it was refused, but the attempt of the item ran
	}
	tries := d.Retry.State.Attempts
	if d.Retry.Retry {
		d.Action = Retry
		d.Reason = fmt.Sprintf("try %d of %d failed", tries, p.Attempts)
		return d
	}
	d.Reason = refusal(d.Retry.Reason, tries)
	return d
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
		return "another try would fail the same way"
	case retry.Exhausted:
		return fmt.Sprintf("all %d tries failed", tries)
	}
	return ""
}

func (m *Machine) retryPolicy() retry.Policy {
	if m.policy.RetryConfig != nil {
		return *m.policy.RetryConfig
	}
	return retry.Default()
}

// TimeoutAction is what happens to an item after a timeout of its agent or of one of its commands.
type TimeoutAction string

const (
	TimeoutDLQ        TimeoutAction = "dlq"
	TimeoutSkip       TimeoutAction = "skip"
	TimeoutFail       TimeoutAction = "fail"               // dead-lettered, and the job stops
	GracefulTerminate TimeoutAction = "graceful_terminate" // a longer time to clean up, then as TimeoutDLQ
)

// TimeoutActions returns all timeout actions.
func TimeoutActions() []TimeoutAction {
	return []TimeoutAction{TimeoutDLQ, TimeoutSkip, TimeoutFail, GracefulTerminate}
}

// decidesTimeout reports whether timeout_action applies to o instead of on_item_failure.
func (m *Machine) decidesTimeout(o Outcome) bool {
	return m.policy.OnTimeout != "" && o.Failure.TimedOut
}

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
