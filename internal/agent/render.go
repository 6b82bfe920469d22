package agent

import (
	"slices"
	"strings"

	"prodigy/internal/check"
	"prodigy/internal/mask"
)

// Render returns the commands of the steps of a, or of its handler, as they would run, for people to read: each step
// is followed by its hooks. Nothing is run. A value that is not known before the run, such as the output of a step,
// stays as it was written.
func Render(a Attempt, ofHandler bool) ([]string, error) {
	p := new(compiler).plan(&a)
	s := &scope{run: &run{x: &Executor{inherited: func() []string { return nil }}, a: &a}}
	for _, name := range a.Secrets {
		s.env = append(s.env, name+"="+mask.Mark)
	}
	s = s.withKnown(p.env)
	if ofHandler {
		return s.list(nil, p.handler)
	}
	return s.list(nil, p.steps)
}

// list appends the commands of steps to rendered.
func (s *scope) list(rendered []string, steps []*step) ([]string, error) {
	for _, st := range steps {
		if st.broken != nil {
			return nil, st.broken
		}
		inner := s.binding(st).withKnown(st.env)
		rendered = append(rendered, st.command.render(inner))
		var err error
		part := *s
		if st.Foreach != nil { // whose values are not known
			part.loop = &loop{as: st.Foreach.ElementName(), outer: s.loop}
		}
		for _, steps := range st.inner {
			if rendered, err = part.list(rendered, steps); err != nil {
				return nil, err
			}
		}
		for _, steps := range st.hooks() {
			if rendered, err = s.list(rendered, steps); err != nil {
				return nil, err
			}
		}
	}
	return rendered, nil
}

// hooks returns the lists of steps that may follow st, in the order of workflow.Step.Following.
func (st *step) hooks() [][]*step {
	lists := [][]*step{st.onSuccess}
	for _, steps := range check.ByKey(st.onCode) {
		lists = append(lists, steps)
	}
	return append(lists, st.onFailure)
}

// withKnown returns s with those of vars whose values are known. The others hide earlier values of their names.
func (s *scope) withKnown(vars []variable) *scope {
	inner := *s
	inner.env = slices.Clone(s.env)
	for _, v := range vars {
		if slices.Contains(s.run.a.Secrets, v.name) {
			continue
		}
		inner.env = slices.DeleteFunc(inner.env, func(kv string) bool { return strings.HasPrefix(kv, v.name+"=") })
		if value, known := inner.known(v); known {
			inner.env = append(inner.env, v.name+"="+value)
		}
	}
	return &inner
}

// known returns the value of a variable that needs no command. A secret is not shown.
func (s *scope) known(v variable) (string, bool) {
	switch {
	case v.secret:
		return mask.Mark, true
	case v.command != nil:
		return "", false
	case v.value == nil:
		return v.literal, true
	}
	value, err := v.value.Bind(s)
	return value, err == nil
}
