package workflow

import (
	"gopkg.in/yaml.v3"

	"prodigy/internal/duration"
	"prodigy/internal/limit"
)

// straggler reads a straggler block.
func (r *reader) straggler(e entry) *limit.StragglerConfig {
	c := &limit.StragglerConfig{}
	b := r.block("straggler", e, r.fields(c))
	if b == nil {
		return nil
	}
	r.require(b, "after")
	return c
}

// stragglerAfter reads a multiple of a percentile, or a time.
func (r *reader) stragglerAfter(e entry) (limit.StragglerAfter, bool) {
	if e.value.Kind != yaml.ScalarNode || isNull(e.value) {
		r.wrongType(e, "a multiple of a percentile as in 3×p95, or a time as in 10m")
		return limit.StragglerAfter{}, false
	}
	if _, err := duration.Parse(e.value.Value); err == nil {
		d, ok := r.duration(e, true)
		return limit.StragglerAfter{Time: d}, ok
	}
	a, err := limit.ParseMultiple(e.value.Value)
	if err != nil {
		r.fail(e.value, "%s: %v", e.name, err)
		return limit.StragglerAfter{}, false
	}
	return a, true
}
