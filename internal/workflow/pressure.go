package workflow

import (
	"slices"

	"gopkg.in/yaml.v3"

	"prodigy/internal/limit"
)

// concurrency reads the bounds of the number of agents at once.
func (r *reader) concurrency(e entry) *Concurrency {
	c := &Concurrency{Min: 1}
	keys := r.fields(c)
	keys = withReader(keys, "min", func(e entry) { set(&c.Min)(r.atLeast(e, 1)) })
	keys = withReader(keys, "max", func(e entry) { set(&c.Max)(r.atLeast(e, 1)) })
	b := r.block("concurrency", e, keys)
	if b == nil {
		return nil
	}
	r.require(b, "max")
	switch {
	case !c.Adapt:
		r.fail(b.at("adapt"), `concurrency without "adapt: true" is always the same: write max_parallel instead`)
	case b.has("max") && c.Min > c.Max:
		r.fail(b.at("min"), "min must not be more than max, which is %d", c.Max)
	}
	return c
}

// rate reads a limit as text, or a mapping with one.
func (r *reader) rate(e entry) (Rate, bool) {
	var v Rate
	if e.value.Kind != yaml.MappingNode {
		var ok bool
		v.Limit, ok = r.rateLimit(e)
		return v, ok
	}
	b := r.block("rate", e, r.fields(&v))
	r.require(b, "limit")
	if n := v.Burst; n != nil {
		if *n < 1 || *n > limit.MaxBurst {
			r.fail(b.at("burst"), "burst must be from 1 to %d, not %d", limit.MaxBurst, *n)
			return Rate{}, false
		}
		v.Limit.Burst = *n
	}
	return v, v.Limit.Count > 0
}

// rateLimit reads a limit such as 40/s.
func (r *reader) rateLimit(e entry) (limit.Rate, bool) {
	text, ok := r.nonBlank(e)
	if !ok {
		return limit.Rate{}, false
	}
	l, err := limit.ParseRate(text)
	if err != nil {
		r.fail(e.value, "%s: %v", e.name, err)
	}
	return l, err == nil
}

// windows reads a list of windows, or one.
func (r *reader) windows(e entry) (windows limit.Windows) {
	nodes := []*yaml.Node{e.value}
	if e.value.Kind == yaml.SequenceNode {
		nodes = e.value.Content
	}
	if len(nodes) == 0 {
		r.fail(e.value, "windows is empty: nothing would ever start")
	}
	for _, n := range nodes {
		text, ok := r.nonBlank(e.with(n))
		if !ok {
			continue
		}
		w, err := limit.ParseWindow(text)
		if err != nil {
			r.fail(n, "%s: %v", e.name, err)
			continue
		}
		windows = append(windows, w)
	}
	return windows
}

// guards reads what the machine must have left.
func (r *reader) guards(e entry, g *limit.Guards) {
	b := r.block("guards", e, r.fields(g))
	if b != nil && b.has("load") && g.Load <= 0 {
		r.fail(b.at("load"), "load must be more than 0")
	}
}

// amount reads a size or a share.
func (r *reader) amount(e entry) (limit.Amount, bool) {
	text, ok := r.text(e)
	if !ok {
		return limit.Amount{}, false
	}
	a, err := limit.ParseAmount(text)
	if err != nil {
		r.fail(e.value, "%s: %v", e.name, err)
	}
	return a, err == nil
}

// rateOf is the rate of a step at a position.
type rateOf struct {
	step Pos
	at   entry
}

// allowRates allows the rates of the steps of an agent, not those of steps inside of them. The others stay in r.rates, from which these are those behind n.
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
			r.failAt(s.Rate.Per.Pos, `"batch" and "per" of the rate exclude each other: the items of a batch may have different ones`)
		}
	}
}

// refuseRates reports rates of steps that have none.
func (r *reader) refuseRates() {
	for _, o := range r.rates {
		r.fail(o.at.key, `"rate" is only for the steps of agent_template, and not for those inside of others`)
	}
}
