package workflow

import (
	"prodigy/internal/check"
	"prodigy/internal/limit"
)

// SetDefaults sets the least number of agents.
func (c *Concurrency) SetDefaults() { c.Min = 1 }

// Check finds what is wrong with c.
func (c *Concurrency) Check(found *check.Findings) {
	found.Require(c.Adapt, "adapt", `concurrency requires "adapt: true"; for a fixed number use max_parallel`)
	found.Require(!c.Adapt || c.Max == 0 || c.Min <= c.Max, "min", "min must not be more than max, which is %d", c.Max)
}

// read reads a limit as text, or a mapping with one.
func (v *Rate) read(r *reader, e entry) bool {
	ok := r.readWith(e, v, r.fields(v)) != nil
	if v.Burst != nil {
		v.Limit.Burst = *v.Burst
	}
	return ok && v.Limit.Count > 0
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
