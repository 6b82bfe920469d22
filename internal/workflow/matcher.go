package workflow

import (
	"gopkg.in/yaml.v3"

	"prodigy/internal/retry"
)

// matchers reads retry_on: a list of matchers, or a single one.
func (r *reader) matchers(e entry) []retry.Matcher {
	nodes := []*yaml.Node{e.value}
	if e.value.Kind == yaml.SequenceNode {
		nodes = e.value.Content
	}
	var all []retry.Matcher
	for _, n := range nodes {
		if m, ok := r.matcher(e.with(n)); ok {
			all = append(all, m)
		}
	}
	return all
}

func (r *reader) matcher(e entry) (retry.Matcher, bool) {
	var m retry.Matcher
	if e.value.Kind != yaml.MappingNode {
		name, ok := r.text(e)
		if m.Name = name; !ok {
			return m, false
		}
		return m, r.check(e, m.Check())
	}
	pattern := func(e entry) {
		if expr, ok := r.filled(e); ok {
			var err error
			m, err = retry.PatternMatcher(expr)
			r.check(e, err)
		}
	}
	b := r.block(e.name, e, []key{
		{name: "pattern", read: pattern},
		{name: "exit_code", read: func(e entry) { m.ExitCodes = r.exitCodes(e) }},
	})
	r.require(b, "pattern", "exit_code")
	if b.has("pattern") && b.has("exit_code") {
		r.fail(e.value, `an entry of retry_on has both "pattern" and "exit_code": make two entries of it`)
		return m, false
	}
	return m, m.Pattern != "" || len(m.ExitCodes) > 0
}

// check reports err, if there is one, at the value of e.
func (r *reader) check(e entry, err error) bool {
	if err != nil {
		r.fail(e.value, "%v", err)
	}
	return err == nil
}

// exitCodes reads one exit code or a list of them.
func (r *reader) exitCodes(e entry) []int {
	nodes := []*yaml.Node{e.value}
	if e.value.Kind == yaml.SequenceNode {
		nodes = e.value.Content
	}
	if len(nodes) == 0 {
		r.fail(e.value, "exit_code has no codes")
	}
	var codes []int
	for _, n := range nodes {
		if code, ok := r.atLeast(e.with(n), 1); ok {
			codes = append(codes, code)
		}
	}
	return codes
}
