package workflow

import (
	"gopkg.in/yaml.v3"
)

// Canary is how a map phase begins with few items.
type Canary struct {
	Items       int      `yaml:"items"`        // how many items run before the others; required
	SuccessRate *float64 `yaml:"success_rate"` // the part of them that has to succeed; default 0.95
}

// Ramp is how a map phase begins with few agents at once.
type Ramp struct {
	Steps       []int    `yaml:"steps"`        // how many agents run at once, step by step; the last is that of the rest; required
	Items       *int     `yaml:"items"`        // how many items end in a step before the next begins; default as many as the canary has, else 20
	SuccessRate *float64 `yaml:"success_rate"` // the part of them that has to succeed; default that of the canary, else 0.95
}

const (
	defaultSuccessRate = 0.95
	defaultRampItems   = 20
	maxRolloutItems    = 1_000_000
	maxRampSteps       = 32
)

// canary reads a canary.
func (r *reader) canary(e entry) *Canary {
	c := &Canary{}
	b := r.block("canary", e, r.fields(c))
	if b == nil {
		return nil
	}
	r.require(b, "items")
	if b.has("items") {
		r.checkRolloutItems(b, c.Items)
	}
	c.SuccessRate = r.successRate(b, c.SuccessRate, defaultSuccessRate)
	return c
}

// ramp reads a list of steps, or a mapping with it.
func (r *reader) ramp(e entry) *Ramp {
	if e.value.Kind != yaml.MappingNode {
		return &Ramp{Steps: r.rampSteps(e)}
	}
	v := &Ramp{}
	keys := withReader(r.fields(v), "steps", func(e entry) { v.Steps = r.rampSteps(e) })
	b := r.block("ramp", e, keys)
	if b == nil {
		return nil
	}
	r.require(b, "steps")
	if b.has("items") && v.Items != nil {
		r.checkRolloutItems(b, *v.Items)
	}
	if b.has("success_rate") {
		v.SuccessRate = r.successRate(b, v.SuccessRate, defaultSuccessRate)
	}
	return v
}

func (r *reader) checkRolloutItems(b *block, n int) {
	if n < 1 || n > maxRolloutItems {
		r.fail(b.at("items"), "items must be from 1 to %d, not %d", maxRolloutItems, n)
	}
}

// successRate returns a rate that is more than 0 and at most 1.
func (r *reader) successRate(b *block, rate *float64, otherwise float64) *float64 {
	if rate == nil {
		return &otherwise
	}
	switch {
	case *rate == 0:
		r.fail(b.at("success_rate"), "success_rate of 0 lets everything go on: it must be more than 0, up to 1")
	case !(*rate > 0 && *rate <= 1):
		r.fail(b.at("success_rate"), "success_rate must be more than 0, up to 1, not %v", *rate)
	}
	return rate
}

// rampSteps reads the steps of a ramp.
func (r *reader) rampSteps(e entry) []int {
	if e.value.Kind != yaml.SequenceNode {
		r.wrongType(e, "a list of numbers of agents, as in [2, 8, 32]")
		return nil
	}
	var steps []int
	for _, n := range e.value.Content {
		step, ok := r.atLeast(e.with(n), 1)
		if !ok {
			return nil
		}
		if len(steps) > 0 && step <= steps[len(steps)-1] {
			r.fail(n, "ramp must rise from step to step: %d comes after %d", step, steps[len(steps)-1])
			return nil
		}
		steps = append(steps, step)
	}
	switch {
	case len(steps) < 2:
		r.fail(e.value, "ramp needs at least two steps, as in [2, 8, 32]: one alone is max_parallel")
		return nil
	case len(steps) > maxRampSteps:
		r.fail(e.value, "ramp has %d steps, more than %d", len(steps), maxRampSteps)
		return nil
	}
	return steps
}

// checkRollout checks canary and ramp against the rest of the map, and completes them.
func (r *reader) checkRollout(m *Map, b *block) {
	if c := m.Canary; c != nil && c.Items > 0 && m.Input.Items != nil && c.Items > len(m.Input.Items) {
		r.fail(b.at("canary"), "the canary has %d items, and there are only %d", c.Items, len(m.Input.Items))
	}
	if c, most := m.Canary, m.MaxItems; c != nil && most != nil && c.Items > *most && *most > 0 {
		r.fail(b.at("canary"), "the canary has %d items, and max_items takes only %d", c.Items, *most)
	}
	v := m.Ramp
	if v == nil || len(v.Steps) == 0 {
		return
	}
	if v.Items == nil {
		items := defaultRampItems
		if m.Canary != nil {
			items = m.Canary.Items
		}
		v.Items = &items
	}
	if v.SuccessRate == nil {
		rate := defaultSuccessRate
		if m.Canary != nil {
			rate = *m.Canary.SuccessRate
		}
		v.SuccessRate = &rate
	}
	last := v.Steps[len(v.Steps)-1]
	written := "max_parallel"
	if m.Concurrency != nil {
		written = "concurrency"
	}
	switch {
	case !b.has(written):
		m.MaxParallel = IntOrVar{Value: last}
	case m.MaxParallel.Var == "" && m.MaxParallel.Value != last:
		r.fail(b.at("ramp"), "the last step of ramp is %d, and %s is %d: the last step is what the rest runs with", last, map[string]string{"max_parallel": "max_parallel", "concurrency": "max of concurrency"}[written], m.MaxParallel.Value)
	}
}
