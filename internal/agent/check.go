package agent

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"prodigy/internal/template"
	"prodigy/internal/workflow"
)

// Check compiles every command text of a workflow and returns what is wrong with them, and what to warn of.
func Check(w *workflow.Workflow) (problems, warnings []workflow.Problem) {
	c := new(compiler)
	at := c.settings(w)
	if w.Mode == workflow.MapReduce {
		c.phases(w, at)
	} else {
		_, at = c.list(w.Commands, at, "")
		c.handlers(w, at)
	}
	return c.problems(w.File)
}

// settings compiles the variables of a workflow, whichever profile will be chosen, and returns the place where they are known.
func (c *compiler) settings(w *workflow.Workflow) place {
	at := outermost()
	for _, p := range w.Parameters {
		at = at.parameter(p.Name)
	}
	for _, s := range w.Secrets {
		c.envName(s.Name, s.Pos)
		at = at.variable(s.Name)
	}
	c.env(nil, w.Env, at)
	at = at.with(w.Env)
	for _, p := range w.Profiles {
		c.env(nil, p.Env, at)
	}
	for _, p := range w.Profiles {
		at = at.with(p.Env)
	}
	return at.packed()
}

// phases compiles the phases of a mapreduce workflow: what setup captures is seen by all after it, what reduce captures by merge,
// and what an agent captures by nobody else.
func (c *compiler) phases(w *workflow.Workflow, at place) {
	at = c.phase(w.Setup, at)
	if w.Map != nil {
		_, behind := c.list(w.Map.AgentTemplate, at.ofAgents(w.Map).perValue(w.Map.ItemsFromArgs), "")
		c.handlers(w, behind)
	}
	at = c.phase(w.Reduce, at.in(phaseReduce))
	c.phase(w.Merge, at.in(phaseMerge))
}

// phase compiles the steps of p, which may be absent, and returns the place behind it as the next phase sees it.
func (c *compiler) phase(p *workflow.Phase, at place) place {
	if p == nil {
		return at
	}
	c.list(p.Commands, at, "")
	for i := range p.Commands {
		at = at.capturing(p.Commands[i].Capture, p.Commands[i].Format).packed()
	}
	return at
}

// handlers compiles the custom handlers of items, in the order of their names.
func (c *compiler) handlers(w *workflow.Workflow, behind place) {
	for _, name := range slices.Sorted(maps.Keys(w.Handlers)) {
		c.list(w.Handlers[name], behind.failed(), "")
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

// captureName refuses names that would steer the programs of later steps, to which captured values are exported.
func (c *compiler) captureName(s *workflow.Step) {
	if !template.ReservedName(s.Capture) {
		return
	}
	c.findings = append(c.findings, finding{
		at: s.Pos, severity: template.Error,
		message: fmt.Sprintf("PS031 the output cannot be captured as %s: a variable of that name would steer the shell or its programs; choose another name", s.Capture),
	})
}

// elementName is captureName for the element of a foreach.
func (c *compiler) elementName(s *step) {
	if name := s.Foreach.ElementName(); template.ReservedName(name) {
		c.findings = append(c.findings, finding{
			at: s.Pos, severity: template.Error,
			message: fmt.Sprintf("PS031 the element cannot be called %s: a variable of that name would steer the shell or its programs; choose another name", name),
		})
	}
}

// steering reports data in a variable by which it becomes code: shells and programs run what they find there.
func (c *compiler) steering(v workflow.EnvVar, compiled variable, p place) {
	runs, searched := template.Steering(v.Name)
	if !runs && !searched {
		return
	}
	written, isData := "the output of a command", v.Command != nil
	if compiled.value != nil {
		written, isData = compiled.value.Data(p.names())
	}
	if !isData && v.Choice != nil && strings.Contains(v.Choice.WhenFalse.Value, "$") {
		if other, err := template.CompilePlain(v.Choice.WhenFalse.Value, p.names()); err == nil {
			written, isData = other.Data(p.names())
		}
	}
	if !isData {
		return
	}
	f := finding{at: v.At(), severity: template.Error, message: fmt.Sprintf(
		"PS033 %s is the value of %s, where shells and programs look for what they run; give it a constant value", written, v.Name)}
	if !runs || v.Command != nil {
		f.severity = template.Warning
		f.message = fmt.Sprintf("PS033 %s is the value of %s; whoever writes it may choose which program runs", written, v.Name)
	}
	c.findings = append(c.findings, f)
}

// envName refuses names that prodigy sets for every command, since what the workflow gives them would never be seen.
func (c *compiler) envName(name string, at workflow.Pos) {
	if !ours(name + "=") {
		return
	}
	c.findings = append(c.findings, finding{
		at: at, severity: template.Error,
		message: fmt.Sprintf("PS032 %s is set by prodigy itself for every command; choose another name", name),
	})
}
