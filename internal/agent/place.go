package agent

import (
	"slices"

	"prodigy/internal/template"
	"prodigy/internal/workflow"
)

// The phases whose steps see names of their own.
const (
	phaseMap    = "map"
	phaseReduce = "reduce"
	phaseMerge  = "merge"
)

// place is where in a workflow a text stands, which decides the names that are prodigy's there.
type place struct {
	phase    string
	handler  bool     // after a failure: error.* is known
	captured []string // by the steps before
	ids      []string // of the steps before
	env      []string
	loops    []string // names of a foreach
	params   []string
	arg      bool // ARG is the item
}

// names returns what Compile needs to know of p.
func (p place) names() template.Names {
	n := template.Names{
		Roots:    []string{"env", "workflow", "job", "shell", "claude", "last"},
		Declared: slices.Concat(p.env, p.params, p.captured),
	}
	switch p.phase {
	case phaseMap:
		n.Roots = append(n.Roots, "item", "worker")
		n.Declared = append(n.Declared, "item", "item_id", "item_index", "item_total", "attempt")
		if p.arg {
			n.Roots, n.Declared = append(n.Roots, argVar), append(n.Declared, argVar)
		}
	case phaseReduce, phaseMerge:
		n.Roots = append(n.Roots, "map")
	}
	if p.handler {
		n.Roots = append(n.Roots, "error")
	}
	n.Declared = append(n.Declared, p.loops...)
	n.Roots = slices.Concat(n.Roots, p.ids, p.params, p.captured, p.loops)
	return n
}

// isData tells whether the values of a name come from items or from what commands have printed.
func (p place) isData(name string) bool {
	switch name {
	case "item", "item_id", argVar, "map", "shell", "claude", last, "error":
		return true
	}
	return slices.Contains(p.captured, name) || slices.Contains(p.ids, name) || slices.Contains(p.loops, name)
}

// behind returns the place behind step s.
func (p place) behind(s *workflow.Step) place {
	if s.Capture != "" {
		p.captured = append(slices.Clip(p.captured), s.Capture)
	}
	if s.ID != "" {
		p.ids = append(slices.Clip(p.ids), s.ID)
	}
	return p
}

// each returns the place of the steps of a foreach whose element has this name.
func (p place) each(element string) place {
	p.loops = append(slices.Clip(p.loops), element, "index", "total")
	return p
}

// failed returns the place of what runs after a failure.
func (p place) failed() place {
	p.handler = true
	return p
}

// with returns the place where these variables are set too.
func (p place) with(vars []workflow.EnvVar) place {
	p.env = slices.Clip(p.env)
	for _, v := range vars {
		p.env = append(p.env, v.Name)
	}
	return p
}

// outermost returns the place of the variables of the workflow.
func outermost(a *Attempt) place {
	p := place{env: a.Secrets}
	for _, arg := range a.Args {
		p.params = append(p.params, arg.Name)
	}
	return p
}

// placeOf returns where the steps of an attempt begin.
func placeOf(a *Attempt) place {
	p := outermost(a).with(a.Env)
	p.phase, p.arg = a.Phase, a.PerValue
	for _, e := range a.Earlier {
		if e.Capture != "" {
			p.captured = append(p.captured, e.Capture)
		}
	}
	return p
}

// perValue returns p where ARG is the item, if it is.
func (p place) perValue(is bool) place {
	p.arg = is
	return p
}
