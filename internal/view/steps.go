package view

import (
	"slices"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/retry"
)

// Step is a step of a phase that runs once: of setup, reduce and merge, or of a standard workflow.
type Step struct {
	Phase    string // empty in a standard workflow
	Name     string
	Ended    time.Time
	Duration time.Duration
	Tries    int
	Outcome  StepOutcome
	Error    string // of one that failed
	reason   retry.Reason
}

// GaveUp says why a step that failed was not tried again, where its retry_config had room for that or its tries were used up.
func (s Step) GaveUp() string {
	switch {
	case s.reason == retry.Exhausted && s.Tries <= 1, s.reason == retry.Permanent:
		return ""
	}
	return reasons()[s.reason]
}

// StepOutcome is how a step ended.
type StepOutcome string

const (
	StepDone     StepOutcome = "done"
	StepForgiven StepOutcome = "failed, and forgiven"
	StepFailed   StepOutcome = "failed"
	StepLeftOut  StepOutcome = "left out" // its condition was not met
)

// stepsKept bounds the steps that are kept, the first ones.
const stepsKept = 500

// steps are the steps that run once. The zero steps is empty.
type steps struct {
	list  []Step
	tries map[string]int // of the steps that have not ended, that failed
}

// Steps returns the steps that have ended, in the order in which they did. Of one that has failed and was run again, the last end counts.
func (j *Job) Steps() []Step { return j.steps.list }

func (s *steps) retrying(e events.StepRetrying) {
	if s.tries == nil {
		s.tries = map[string]int{}
	}
	s.tries[e.Step] = e.Attempt
}

func (s *steps) completed(now time.Time, e events.StepCompleted) {
	step := Step{Phase: e.Phase, Name: e.Step, Ended: now, Duration: time.Duration(e.DurationMS), Tries: s.tries[e.Step] + 1, Outcome: StepDone}
	switch {
	case e.Skipped:
		step.Outcome, step.Tries = StepLeftOut, 0
	case e.Failed:
		step.Outcome = StepForgiven
	}
	s.add(step)
}

// failed notes a step that ended its phase. Of one after which the phase goes on, the record of its completion tells.
func (s *steps) failed(now time.Time, phase string, e events.StepFailed) {
	if e.Action == "stop" {
		s.add(Step{Phase: phase, Name: e.Step, Ended: now, Tries: e.Attempts, Outcome: StepFailed, Error: e.Error, reason: e.Reason})
	}
}

func (s *steps) add(step Step) {
	delete(s.tries, step.Name)
	s.list = slices.DeleteFunc(s.list, func(old Step) bool { // which a resume has run again
		return old.Outcome == StepFailed && old.Phase == step.Phase && old.Name == step.Name
	})
	if len(s.list) < stepsKept {
		s.list = append(s.list, step)
	}
}
