package workflow

import (
	"gopkg.in/yaml.v3"

	"prodigy/internal/rate"
)

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
		if *n < 1 || *n > rate.MaxBurst {
			r.fail(b.at("burst"), "burst must be from 1 to %d, not %d", rate.MaxBurst, *n)
			return Rate{}, false
		}
		v.Limit.Burst = *n
	}
	return v, v.Limit.Count > 0
}

// rateLimit reads a limit such as 40/s.
func (r *reader) rateLimit(e entry) (rate.Limit, bool) {
	text, ok := r.nonBlank(e)
	if !ok {
		return rate.Limit{}, false
	}
	l, err := rate.Parse(text)
	if err != nil {
		r.fail(e.value, "%s: %v", e.name, err)
	}
	return l, err == nil
}
