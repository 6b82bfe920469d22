package cli

import (
	"math"
	"time"

	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

// cost is an upper bound of a running time.
type cost struct {
	time      time.Duration // including waits; saturates at the longest Duration
	unlimited string        // a step without a limit; empty if all have one
}

func (c cost) plus(other cost) cost {
	if c.unlimited == "" {
		c.unlimited = other.unlimited
	}
	c.time = longer(c.time, other.time)
	return c
}

// times returns the cost of n times c in sequence.
func (c cost) times(n int) cost {
	if c.time > 0 && time.Duration(n) > math.MaxInt64/c.time {
		c.time = math.MaxInt64
		return c
	}
	c.time *= time.Duration(n)
	return c
}

// within returns c bounded by a timeout around it; 0 means no timeout.
func (c cost) within(limit time.Duration) cost {
	if limit > 0 && (c.unlimited != "" || c.time > limit) {
		return cost{time: limit}
	}
	return c
}

// longer adds two durations and saturates at the longest Duration.
func longer(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// costOf returns the cost of the steps of a section in sequence, including retries and hooks.
func costOf(section string, steps []workflow.Step) cost {
	var total cost
	for i, s := range steps {
		total = total.plus(costOfStep(section+": "+s.Label(i), s))
	}
	return total
}

func costOfStep(name string, s workflow.Step) cost {
	again := 0
	if s.OnFailure != nil {
		again = s.OnFailure.MaxAttempts
	}
	total := costOfRun(name, s).plus(costOfValidation(name, s)).times(triesOf(s.Retry) + again).plus(cost{time: waitOf(s.Retry)})
	for key, steps := range s.NestedSteps() {
		if !workflow.IsPartOfTry(key) {
			rounds, _ := s.Rounds(key)
			total = total.plus(costOf(name+" "+key, steps).times(rounds))
		}
	}
	return total
}

// costOfValidation returns the cost of validating one try of a step, including the steps that complete its work.
func costOfValidation(name string, s workflow.Step) cost {
	var total cost
	for key, steps := range s.NestedSteps() {
		if workflow.IsPartOfTry(key) && key != keyOfLoop {
			rounds, _ := s.Rounds(key)
			total = total.plus(costOf(name+" "+key, steps).times(rounds))
		}
	}
	return total
}

const keyOfLoop = "do"

// costOfRun returns the cost of one try of a step.
func costOfRun(name string, s workflow.Step) cost {
	longest, limited := s.Longest()
	total := cost{time: longest}
	if !limited {
		total.unlimited = name
	}
	for key, steps := range s.NestedSteps() {
		if key == keyOfLoop {
			rounds, known := s.Rounds(key)
			total = total.plus(costOf(name+" "+key, steps).times(rounds))
			if !known {
				total.unlimited = name
			}
		}
	}
	return total.within(s.Timeout)
}

// triesOf returns the maximum number of tries under p, which may be nil.
func triesOf(p *retry.Policy) int {
	if p == nil {
		return 1
	}
	return p.Tries()
}

// waitOf returns the longest total delay of all retries under p, which may be nil.
func waitOf(p *retry.Policy) time.Duration {
	if p == nil {
		return 0
	}
	return p.MaxWait()
}

// costOfItem returns the cost of one item: all attempts, delays and the handler of its failure.
func costOfItem(w *workflow.Workflow) cost {
	agent := costOf("map", w.Map.AgentTemplate).within(w.Map.AgentLimit().Value)
	policy := w.ErrorPolicy.Retries()
	handler := w.ErrorPolicy.OnItemFailure.Handler
	return agent.times(triesOf(policy)).plus(cost{time: waitOf(policy)}).plus(costOf("handlers."+handler, w.Handlers[handler]))
}

// costOfMap returns the cost of the map phase for this number of items and slots.
func costOfMap(w *workflow.Workflow, items, slots int) cost {
	return costOfItem(w).times((items + slots - 1) / slots)
}

// costOfOnce returns the cost of the steps that run once per job, not once per item.
func costOfOnce(w *workflow.Workflow) cost {
	total := costOf("commands", w.Commands)
	for _, p := range []struct {
		name  string
		phase *workflow.Phase
	}{{"setup", w.Setup}, {"reduce", w.Reduce}, {"merge", w.Merge}} {
		if p.phase != nil {
			total = total.plus(costOf(p.name, p.phase.Commands).within(p.phase.Timeout.Value))
		}
	}
	return total
}
