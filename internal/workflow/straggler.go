package workflow

import (
	"cmp"

	"gopkg.in/yaml.v3"

	"prodigy/internal/duration"
	"prodigy/internal/errorpolicy"
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

// checkStraggler checks that two attempts at an item may run at once, if the map phase has that.
func (r *reader) checkStraggler() {
	m := r.w.Map
	if m == nil || m.Straggler == nil || !m.Straggler.Duplicate {
		return
	}
	const duplicate = "straggler with duplicate: true"
	switch {
	case r.w.Workspace.Isolated():
		r.failAt(m.StragglerPos, "%s does not go with workspaces: both attempts at an item would have the same branch; without duplicate, stragglers are told", duplicate)
	case len(m.Produces) > 0:
		r.failAt(m.StragglerPos, "%s does not go with produces: both attempts at an item would write the same files; without duplicate, stragglers are told", duplicate)
	case m.MaxParallel.Var == "" && m.MaxParallel.Value == 1:
		r.warnings = append(r.warnings, r.problem(m.StragglerPos, "%s has no effect with one slot: there is never a free one for a second attempt", duplicate))
	}
	steps := m.AgentTemplate
	if p := r.w.ErrorPolicy.OnItemFailure; p.Kind == errorpolicy.Custom {
		steps = append(steps[:len(steps):len(steps)], r.w.Handlers[p.Handler]...)
	}
	for i, s := range steps {
		if !s.Idempotent {
			r.failAt(s.Pos, "%s runs a step twice for one item, perhaps at once, and stops one of the two: step %s has to say that this does no harm, with idempotent: true", duplicate, cmp.Or(s.Label(i), "without a name"))
		}
	}
}
