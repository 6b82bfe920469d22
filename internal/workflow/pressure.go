package workflow

import (
	"slices"

	"prodigy/internal/check"
	"prodigy/internal/limit"
)

// SetDefaults sets the least number of agents.
func (c *Concurrency) SetDefaults() { c.Min = 1 }

// Check returns what is wrong with c.
func (c *Concurrency) Check() []check.Finding {
	var found check.Findings
	found.Require(c.Adapt, "adapt", `concurrency requires "adapt: true"; for a fixed number use max_parallel`)
	found.Require(!c.Adapt || c.Max == 0 || c.Min <= c.Max, "min", "min must not be more than max, which is %d", c.Max)
	return found
}

// rate reads a limit as text, or a mapping with one.
func (r *reader) rate(e entry, v *Rate) bool {
	ok := r.read(e, v)
	if v.Burst != nil {
		v.Limit.Burst = *v.Burst
	}
	return ok && v.Limit.Count > 0
}

// rateOf is the rate of a step at a position.
type rateOf struct {
	step Pos
	at   entry
}

// allowRates allows the rates of the steps of an agent, not those of steps inside of them. The others stay in
// r.rates, from which these are those behind n.
func (r *reader) allowRates(m *Map, n int) {
	for _, s := range m.AgentTemplate {
		if i := slices.IndexFunc(r.rates[n:], func(o rateOf) bool { return o.step == s.Pos }); s.Rate != nil && i >= 0 {
			r.rates = slices.Delete(r.rates, n+i, n+i+1)
		}
	}
}

// stepRates gives the rates of the steps of an agent to the policy of the job.
func (r *reader) stepRates(m *Map) {
	for i, s := range m.AgentTemplate {
		if s.Rate == nil {
			continue
		}
		if r.w.ErrorPolicy.StepRates == nil {
			r.w.ErrorPolicy.StepRates = map[int]limit.Rate{}
		}
		r.w.ErrorPolicy.StepRates[i] = s.Rate.Limit
		if m.Batch > 0 && s.Rate.Per != nil {
			r.failAt(s.Rate.Per.Pos, `"batch" and rate "per" cannot be used together: items of a batch may have different keys`)
		}
	}
}

// refuseRates reports rates of steps that have none.
func (r *reader) refuseRates() {
	for _, o := range r.rates {
		r.fail(o.at.key, `"rate" is only for the steps of agent_template, not for nested steps`)
	}
}
