package mapreduce

import (
	"prodigy/internal/breaker"
	"prodigy/internal/events"
)

// circuits are the last transitions of the breakers of steps, by phase and scope: two phases may have steps of one label. The breaker
// of the workflow is not among them, because the policy has it.
type circuits map[string]map[string]breaker.Transition

// scopeWorkflow is the scope of the breaker over the items of a job.
const scopeWorkflow = "workflow"

// note follows a circuit event of a phase. The failures in a row go on from the opening while tests run.
func (c circuits) note(phase string, e events.Event) {
	scope, t, ok := events.Transition(e)
	if !ok || scope == scopeWorkflow {
		return
	}
	if c[phase] == nil {
		c[phase] = map[string]breaker.Transition{}
	}
	if t.To == breaker.HalfOpen {
		t.ConsecutiveFailures = c[phase][scope].ConsecutiveFailures
	}
	c[phase][scope] = t
}
