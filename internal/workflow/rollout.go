package workflow

import (
	"cmp"
	"strconv"

	"prodigy/internal/check"
)

// Canary is how a map phase begins with few items.
type Canary struct {
	// number of items to run first; required
	Items int `yaml:"items" required:"true" range:"1 1000000"`

	// required success rate; default 0.95
	SuccessRate *float64 `yaml:"success_rate"`
}

// Ramp is how a map phase begins with few agents at once.
type Ramp struct {
	// number of items to run at a time in each step; the last applies to all remaining items; required
	Steps []int `yaml:"steps" required:"true" short:"true" list:"integers, as in [2, 8, 32]" least:"1"`

	// number of items that finish in a step before the next starts; default that of the canary, else 20
	Items *int `yaml:"items" range:"1 1000000"`

	// required success rate; default that of the canary, else 0.95
	SuccessRate *float64 `yaml:"success_rate"`
}

const (
	defaultSuccessRate = 0.95
	defaultRampItems   = 20
	maxRampSteps       = 32
)

// SetDefaults sets the rate of a canary that does not name one.
func (c *Canary) SetDefaults() { c.SuccessRate = new(defaultSuccessRate) }

// Check finds what is wrong with c.
func (c *Canary) Check(found *check.Findings) {
	checkSuccessRate(found, c.SuccessRate)
}

// Check finds what is wrong with v.
func (v *Ramp) Check(found *check.Findings) {
	checkSuccessRate(found, v.SuccessRate)
	for i := 1; i < len(v.Steps); i++ {
		if step, before := v.Steps[i], v.Steps[i-1]; step <= before {
			found.Require(false, "steps."+strconv.Itoa(i), "ramp must be increasing: %d follows %d",
				step, before)
			return
		}
	}
	few := v.Steps != nil && len(v.Steps) < 2 // nil is told already
	found.Require(!few, "steps", "ramp must have at least two steps, as in [2, 8, 32]; for a single number use max_parallel")
	found.Require(len(v.Steps) <= maxRampSteps, "steps", "ramp has %d steps, the maximum is %d", len(v.Steps), maxRampSteps)
}

func checkSuccessRate(found *check.Findings, rate *float64) {
	if rate != nil {
		found.Require(*rate > 0 && *rate <= 1, "success_rate", "success_rate must be more than 0 and at most 1, got %v",
			*rate)
	}
}

// checkRollout checks a ramp against the rest of the map, and completes it.
func (r *reader) checkRollout(m *Map, b *block) {
	v := m.Ramp
	if v == nil || len(v.Steps) == 0 {
		return
	}
	before := cmp.Or(m.Canary, &Canary{Items: defaultRampItems, SuccessRate: new(defaultSuccessRate)})
	v.Items = cmp.Or(v.Items, &before.Items)
	v.SuccessRate = cmp.Or(v.SuccessRate, before.SuccessRate)
	last := v.Steps[len(v.Steps)-1]
	written, most := "max_parallel", "max_parallel"
	if m.Concurrency != nil {
		written, most = "concurrency", "max of concurrency"
	}
	switch {
	case !b.has(written):
		m.MaxParallel = IntOrVar{Value: last}
	case m.MaxParallel.Var == "" && m.MaxParallel.Value != last:
		r.fail(b.at("ramp"), "the last step of ramp is %d, but %s is %d: the remaining items run with the last step",
			last, most, m.MaxParallel.Value)
	}
}
