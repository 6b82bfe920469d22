package web

import "strconv"

// ActionKind is what can be started from a page.
type ActionKind string

const (
	Stop   ActionKind = "stop"
	Resume ActionKind = "resume"
	Retry  ActionKind = "retry" // of dead letters

	// What a running job is asked for.
	Pause    ActionKind = "pause"
	Continue ActionKind = "continue"
	Drain    ActionKind = "drain"
	Cancel   ActionKind = "cancel"
	Scale    ActionKind = "scale"
	Skip     ActionKind = "skip"
	RetryNow ActionKind = "retry-now"

	Accept ActionKind = "accept" // resume although too few of the first items have succeeded
)

// actionKinds returns all of them.
func actionKinds() []ActionKind {
	return []ActionKind{Stop, Resume, Retry, Pause, Continue, Drain, Cancel, Scale, Skip, RetryNow, Accept}
}

// Continues reports whether the action continues a job that is not running.
func (k ActionKind) Continues() bool { return k == Resume || k == Accept || k == Retry }

// Action is what a person asked for on a page.
type Action struct {
	Kind   ActionKind
	Items  []string // to retry or skip; empty means all that are eligible, or that wait
	Reduce bool     // run reduce again after a retry
	Slots  int      // of Scale
}

// Command returns the arguments of the command that a person would type for the action on a job, without the flags
// about a fleet.
func (a Action) Command(jobID string) []string {
	switch a.Kind {
	case Accept:
		return []string{"resume", jobID, "--accept"}
	case Skip, RetryNow:
		return append([]string{string(a.Kind), jobID, "--"}, a.Items...)
	case Scale:
		return []string{"scale", jobID, strconv.Itoa(a.Slots)}
	case Stop, Resume, Pause, Continue, Drain, Cancel:
		return []string{string(a.Kind), jobID}
	}
	args := []string{"dlq", "retry", jobID}
	for _, item := range a.Items {
		args = append(args, "--item", item)
	}
	if len(a.Items) > 0 {
		args = append(args, "--force") // a person has looked at it
	}
	if a.Reduce {
		args = append(args, "--reduce")
	}
	return args
}
