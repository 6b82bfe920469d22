package errorpolicy

import "fmt"

// TimeoutAction is what happens to an item when the time of its agent, or of a command of it, is up.
type TimeoutAction string

const (
	TimeoutDLQ        TimeoutAction = "dlq"
	TimeoutSkip       TimeoutAction = "skip"
	TimeoutFail       TimeoutAction = "fail"               // dead-lettered, and the job stops
	GracefulTerminate TimeoutAction = "graceful_terminate" // a longer time to clean up, then as TimeoutDLQ
)

// TimeoutActions returns all of them.
func TimeoutActions() []TimeoutAction {
	return []TimeoutAction{TimeoutDLQ, TimeoutSkip, TimeoutFail, GracefulTerminate}
}

// decidesTimeout tells whether timeout_action says what follows o, and not on_item_failure.
func (m *Machine) decidesTimeout(o Outcome) bool {
	return m.policy.OnTimeout != "" && o.Failure.TimedOut
}

// onTimeout turns the timeout action into the decision d.
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
