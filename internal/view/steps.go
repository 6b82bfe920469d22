package view

import (
	"slices"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/outputs"
	"prodigy/internal/retry"
)

// Step is a step of setup, reduce, merge or a standard workflow, which run once per job.
type Step struct {
	// The phase of the step. It is empty in a standard workflow.
	Phase string

	Name     string
	Ended    time.Time
	Duration time.Duration
	Tries    int
	Outcome  StepOutcome

	// Why the step failed.
	Error string

	// Where what it printed is kept. It is nil if nothing is.
	Outputs *outputs.Span

	reason retry.Reason
}

// GaveUp returns why a failed step was not retried, or "" if there is nothing to explain: one try was all it
// had, or the error is permanent.
func (s Step) GaveUp() string {
	switch {
	case s.reason == retry.Exhausted && s.Tries <= 1, s.reason == retry.Permanent:
		return ""
	}
	return reasons[s.reason]
}

// StepOutcome is the outcome of a step.
type StepOutcome string

const (
	StepDone     StepOutcome = "done"
	StepForgiven StepOutcome = "failed, job continued"
	StepFailed   StepOutcome = "failed"
	StepLeftOut  StepOutcome = "left out" // its condition was not met
)

// stepsKept is the maximum number of steps that are kept, the first ones.
const stepsKept = 500

// stepCompleted adds a step that has ended well, was forgiven its failure, or was left out.
func (j *Job) stepCompleted(now time.Time, e events.StepCompleted) {
	step := Step{
		Phase: e.Phase, Name: e.Step, Ended: now, Duration: time.Duration(e.DurationMS),
		Tries: j.tries[e.Step] + 1, Outcome: StepDone, Outputs: e.Outputs,
	}
	switch {
	case e.Skipped:
		step.Outcome, step.Tries = StepLeftOut, 0
	case e.Failed:
		step.Outcome = StepForgiven
	}
	j.addStep(step)
}

// addStep adds a step, in place of its failure in an earlier run.
func (j *Job) addStep(step Step) {
	delete(j.tries, step.Name)
	j.Steps = slices.DeleteFunc(j.Steps, func(old Step) bool { // a resume has run it again
		return old.Outcome == StepFailed && old.Phase == step.Phase && old.Name == step.Name
	})
	if len(j.Steps) < stepsKept {
		j.Steps = append(j.Steps, step)
	}
}

// reasons explain why a step was not retried.
var reasons = map[retry.Reason]string{
	retry.Exhausted:    "no attempts left",
	retry.NotRetryable: "no retry_on entry matched",
	retry.Budget:       "the next delay would exceed the retry budget",
	retry.CircuitOpen:  "its circuit breaker is open",
	retry.Permanent:    "retrying would fail the same way",
}
