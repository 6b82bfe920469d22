package agent

import (
	"slices"
	"strings"
)

// Render returns the commands of the steps of a as they would run, for people to read: each step is followed by the steps that handle
// its failure. Nothing is run. A value that is not known before the run, as what earlier steps leave, stays as it was written.
func Render(a Attempt) ([]string, error) {
	p := new(compiler).plan(&a)
	return renderer(&a, p).list(nil, p.steps)
}

// RenderHandler is Render for the handler of a.
func RenderHandler(a Attempt) ([]string, error) {
	p := new(compiler).plan(&a)
	return renderer(&a, p).list(nil, p.handler)
}

// renderer returns the variables that are known before any step has run.
func renderer(a *Attempt, p *plan) *scope {
	s := &scope{run: &run{x: new(Executor), a: a, plan: p}}
	return s.withKnown(p.env)
}

// list appends the commands of steps to rendered.
func (s *scope) list(rendered []string, steps []*step) ([]string, error) {
	for _, st := range steps {
		if st.broken != nil {
			return nil, st.broken
		}
		inner := s.binding(st).withKnown(st.env)
		var err error
		if rendered, err = s.list(append(rendered, st.command.render(inner)), st.handler); err != nil {
			return nil, err
		}
	}
	return rendered, nil
}

// withKnown returns s with those of vars whose values are known. The others hide what had their names before.
func (s *scope) withKnown(vars []variable) *scope {
	inner := *s
	inner.env = slices.Clone(s.env)
	for _, v := range vars {
		inner.env = slices.DeleteFunc(inner.env, func(kv string) bool { return strings.HasPrefix(kv, v.name+"=") })
		if value, err := v.value.Bind(&inner); err == nil {
			inner.env = append(inner.env, v.name+"="+value)
		}
	}
	return &inner
}
