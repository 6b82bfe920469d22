package agent

import (
	"cmp"
	"maps"
	"slices"

	"prodigy/internal/template"
	"prodigy/internal/workflow"
)

// Check compiles every text of a workflow that can hold values, whichever profile will be chosen, and returns the errors and warnings in the
// order of the file.
func Check(w *workflow.Workflow) (problems, warnings []workflow.Problem) {
	c := new(compiler)
	names := globalNames()
	if len(w.EnvFiles) > 0 {
		names = scopeNames{names.Open()} // they are read when a job starts
	}
	for _, p := range w.Parameters {
		names = names.parameter(p.Name)
	}
	for _, s := range w.Secrets {
		c.envName(s.Name, s.Pos)
		names = names.variable(s.Name)
	}
	c.env(nil, w.Env, names)
	names = names.withVars(w.Env)
	for _, p := range w.Profiles {
		c.env(nil, p.Env, names)
	}
	for _, p := range w.Profiles {
		names = names.withVars(p.Env)
	}
	names = names.flatten()

	if w.Mode == workflow.MapReduce { // all phases see what setup captures, merge what reduce captures, nobody else what an agent captures
		names = c.phase(w.Setup, names)
		if w.Map != nil {
			_, after := c.list(w.Map.AgentTemplate, names.ofAgents(w.Map).perValue(w.Map.ItemsFromArgs), "")
			c.handlers(w, after)
		}
		names = c.phase(w.Reduce, names.inPhase(phaseReduce))
		c.phase(w.Merge, names.inPhase(phaseMerge))
	} else {
		_, names = c.list(w.Commands, names, "")
		c.handlers(w, names)
	}
	return c.problems(w.File)
}

// phase compiles the steps of p, which may be nil, and returns the names that the next phase sees.
func (c *compiler) phase(p *workflow.Phase, n scopeNames) scopeNames {
	if p == nil {
		return n
	}
	c.list(p.Commands, n, "")
	for i := range p.Commands {
		n = n.capturing(p.Commands[i].Capture, p.Commands[i].Format).flatten()
	}
	return n
}

// handlers compiles the custom handlers of items, in the order of their names.
func (c *compiler) handlers(w *workflow.Workflow, n scopeNames) {
	for _, name := range slices.Sorted(maps.Keys(w.Handlers)) {
		c.list(w.Handlers[name], n.failed(), "")
	}
}

// problems returns the errors and the warnings among the findings, in the order of the file.
func (c *compiler) problems(file string) (problems, warnings []workflow.Problem) {
	slices.SortStableFunc(c.findings, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.at.Line, b.at.Line), cmp.Compare(a.at.Col, b.at.Col))
	})
	for _, f := range c.findings {
		p := workflow.Problem{File: file, Line: f.at.Line, Col: f.at.Col, Message: f.message}
		switch f.severity {
		case template.Error:
			problems = append(problems, p)
		case template.Warning:
			warnings = append(warnings, p)
		case template.Info:
		}
	}
	return problems, warnings
}
