package simulate

import (
	"cmp"
	"time"

	"prodigy/internal/duration"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

// bound is an upper bound of a running time.
type bound struct {
	time      time.Duration // including waits; saturates at the longest Duration
	unlimited string        // a step without a limit; empty if all have one
}

// plus returns the bound of both, one after the other.
func (c bound) plus(other bound) bound {
	if c.unlimited == "" {
		c.unlimited = other.unlimited
	}
	c.time = duration.Plus(c.time, other.time)
	return c
}

// times bounds the time of n times c in sequence.
func (c bound) times(n int) bound {
	c.time = duration.Times(c.time, n)
	return c
}

// within returns c bounded by a timeout around it; 0 means no timeout.
func (c bound) within(limit time.Duration) bound {
	if limit > 0 && (c.unlimited != "" || c.time > limit) {
		return bound{time: limit}
	}
	return c
}

// boundOf bounds the time of the steps of a section in sequence, with all their tries, waits and hooks. What is not
// limited is named by its first step.
func boundOf(section string, steps []workflow.Step) bound {
	var total bound
	for i, s := range steps {
		name := section + ": " + s.Label(i)
		tries := TriesOf(s.Retry)
		if s.OnFailure != nil {
			tries += s.OnFailure.MaxAttempts
		}
		var try, more, after bound // what the timeout of a try is around, what else belongs to it, and what follows
		if s.IsCommand() {
			try.unlimited = name
		}
		for key, steps := range s.NestedSteps() {
			part := &after
			if key == "do" {
				part = &try
			} else if workflow.IsPartOfTry(key) {
				part = &more
			}
			rounds, known := s.Rounds(key)
			*part = part.plus(boundOf(name+" "+key, steps).times(rounds))
			if !known {
				part.unlimited = name
			}
		}
		try = try.within(s.Timeout).plus(more)
		total = total.plus(try.times(tries)).plus(bound{time: policyOf(s.Retry).MaxWait()}).plus(after)
	}
	return total
}

// policyOf returns the policy of a step or an item. Without one nothing is retried, as by the zero Policy.
func policyOf(p *retry.Policy) retry.Policy {
	return *cmp.Or(p, new(retry.Policy))
}

// TriesOf returns the maximum number of tries under p, which may be nil.
func TriesOf(p *retry.Policy) int { return policyOf(p).Tries() }

// boundOfItem bounds the time of one item: all attempts, delays and the handler of its failure.
func boundOfItem(w *workflow.Workflow) bound {
	agent := boundOf("map", w.Map.AgentTemplate).within(w.Map.AgentLimit().Value)
	policy := w.ErrorPolicy.Retries()
	handler := w.ErrorPolicy.OnItemFailure.Handler
	return agent.times(TriesOf(policy)).plus(bound{time: policyOf(policy).MaxWait()}).plus(boundOf("handlers."+handler,
		w.Handlers[handler]))
}

// boundOfOnce bounds the time of the steps that run once per job, not once per item.
func boundOfOnce(w *workflow.Workflow) bound {
	total := boundOf("commands", w.Commands)
	for _, p := range []struct {
		name  string
		phase *workflow.Phase
	}{{"setup", w.Setup}, {"reduce", w.Reduce}, {"merge", w.Merge}} {
		if p.phase != nil {
			total = total.plus(boundOf(p.name, p.phase.Commands).within(p.phase.Timeout.Value))
		}
	}
	return total
}
