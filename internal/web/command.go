package web

import (
	"slices"
	"strconv"
)

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

// Continues reports whether the action continues a job that is not running.
func (k ActionKind) Continues() bool { return k == Resume || k == Accept || k == Retry }

// Action is what a person asked for on a page.
type Action struct {
	Kind   ActionKind
	Items  []string // to retry or skip; empty means all that are eligible, or that wait
	All    bool     // the items are all that a list has, and nobody has looked at each
	File   string   // has the items, if they are more than fit in a command
	Reduce bool     // run reduce again after a retry
	Slots  int      // of Scale
}

// Command returns the arguments of the command that a person would type for the action on a job, without the flags
// about a fleet.
func (a Action) Command(jobID string) []string {
	named, prefix := a.Items, []string{}
	if a.File != "" {
		named = nil
		prefix = []string{"--arg-file", a.File}
	}
	switch a.Kind {
	case Accept:
		return []string{"resume", jobID, "--accept"}
	case Skip, RetryNow:
		return slices.Concat([]string{string(a.Kind), jobID}, prefix, []string{"--"}, named)
	case Scale:
		return []string{"scale", jobID, strconv.Itoa(a.Slots)}
	case Stop, Resume, Pause, Continue, Drain, Cancel:
		return []string{string(a.Kind), jobID}
	}
	args := append([]string{"dlq", "retry", jobID}, prefix...)
	for _, item := range named {
		args = append(args, "--item", item)
	}
	if len(a.Items) > 0 && !a.All {
		args = append(args, "--force") // a person has looked at it
	}
	if a.Reduce {
		args = append(args, "--reduce")
	}
	return args
}
