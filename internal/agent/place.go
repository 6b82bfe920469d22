package agent

import (
	"strings"

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
type place struct{ known template.Names }

// names returns what Compile needs to know of p.
func (p place) names() template.Names { return p.known }

// knowing returns p with one name more.
func (p place) knowing(name string, is template.Name) place {
	return place{p.known.With(name, is)}
}

// The fields of prodigy's own values.
var (
	resultFields     = []string{"output", "stderr", "exit_code", "success", "skipped", "duration", "duration_ms"}
	validationFields = []string{"completion", "completion_percentage", "status", "missing", "implemented", "gaps", "threshold"}
	errorFields      = []string{"message", "type", "exit_code", "step", "attempts"}
	mapFields        = []string{
		"total", "successful", "failed", "skipped", "failure_rate", "duration", "duration_ms", "results", "results_file",
	}
)

// outermost is the place of what every text can name.
func outermost() place {
	var p place
	p = p.knowing("env", template.Name{Root: true})
	p = p.knowing("workflow", template.Name{Root: true, Fields: []string{"name"}})
	p = p.knowing("job", template.Name{Root: true, Fields: []string{"id"}})
	for _, name := range []string{"shell", "claude", last} {
		p = p.knowing(name, template.Name{Root: true, Data: true, Fields: resultFields})
	}
	return p.packed()
}

// parameter returns the place where a parameter of this name is known. Who runs the workflow writes its value.
func (p place) parameter(name string) place {
	return p.knowing(name, template.Name{Root: true, Declared: true})
}

// variable returns the place where a variable of this name is set too. Its value may be data.
func (p place) variable(name string) place {
	return p.knowing(name, template.Name{Declared: true})
}

// isConstant reports whether the workflow file holds the value of a variable as it is.
func isConstant(v *workflow.EnvVar) bool {
	switch {
	case v.Command != nil || v.Secret:
		return false
	case v.Choice != nil:
		return !strings.Contains(v.Choice.WhenTrue.Value+v.Choice.WhenFalse.Value, "$")
	}
	return v.Literal || !strings.Contains(v.Value.Value, "$")
}

// perValue returns p where ARG is the item, if it is, and its companions are known.
func (p place) perValue(is bool) place {
	if !is {
		return p
	}
	for _, name := range valueVars() {
		p = p.knowing(name, template.Name{Root: true, Declared: true, Data: name == argVar || name == fileVar, Constant: name != argVar && name != fileVar})
	}
	return p
}

// in returns p as the first step of a phase sees it.
func (p place) in(phase string) place {
	switch phase {
	case phaseMap:
		p = p.agent(template.Name{Root: true, Declared: true, Data: true})
	case phaseReduce, phaseMerge:
		p = p.knowing("map", template.Name{Root: true, Data: true, Fields: mapFields})
	}
	return p.packed()
}

// ofAgents returns p as the first step of an agent of m sees it, as far as the workflow tells.
func (p place) ofAgents(m *workflow.Map) place {
	if m.ItemsAreTexts() {
		return p.agent(template.Name{Root: true, Declared: true, Data: true, Text: true, Fields: []string{"output"}}).packed()
	}
	return p.in(phaseMap)
}

// agent returns p where the names of an agent are known.
func (p place) agent(item template.Name) place {
	p = p.knowing("item", item)
	p = p.knowing("item_id", template.Name{Declared: true, Data: true})
	p = p.knowing("worker", template.Name{Root: true, Fields: []string{"id"}})
	for _, name := range []string{"item_index", "item_total", "attempt"} {
		p = p.knowing(name, template.Name{Declared: true})
	}
	return p
}

// packed returns p in a form that much can follow.
func (p place) packed() place { return place{p.known.Packed()} }

// isData tells whether the values of a name come from items or from what commands have printed.
func (p place) isData(name string) bool {
	is, _ := p.known.Lookup(name)
	return is.Data
}

// behind returns the place behind step s.
func (p place) behind(s *workflow.Step) place {
	p = p.capturing(s.Capture, s.Format)
	if s.Validate != nil {
		p = p.knowing("validation", template.Name{Root: true, Data: true, Fields: validationFields})
	}
	if s.Test {
		p = p.knowing(kindTest, template.Name{Root: true, Data: true, Fields: resultFields})
	}
	if s.ID != "" {
		p = p.knowing(s.ID, template.Name{Root: true, Data: true, Fields: resultFields})
	}
	return p.packed()
}

// capturing returns the place behind what has captured its output under a name, which may be empty.
func (p place) capturing(name string, format workflow.CaptureFormat) place {
	if name == "" {
		return p
	}
	is := template.Name{Root: true, Declared: true, Data: true, Fields: resultFields}
	if format == workflow.FormatJSON {
		is.Fields = nil
	}
	return p.knowing(name, is)
}

// each returns the place of the steps of a foreach whose element has this name.
func (p place) each(element string) place {
	for _, name := range []string{element, "index", "total"} {
		p = p.knowing(name, template.Name{Root: true, Declared: true, Data: true, Constant: name != element})
	}
	return p
}

// failed returns the place of what runs after a failure.
func (p place) failed() place {
	return p.knowing("error", template.Name{Root: true, Data: true, Fields: errorFields})
}

// with returns the place where these variables are set too.
func (p place) with(vars []workflow.EnvVar) place {
	for i := range vars {
		p = p.knowing(vars[i].Name, template.Name{Declared: true, Constant: isConstant(&vars[i])})
	}
	return p
}

// ofVariables returns the place of the variables of the workflow.
func ofVariables(a *Attempt) place {
	p := outermost()
	for _, name := range a.Secrets {
		p = p.variable(name)
	}
	for _, arg := range a.Args {
		p = p.parameter(arg.Name)
	}
	return p.packed()
}

// placeOf returns where the steps of an attempt begin.
func placeOf(a *Attempt) place {
	p := ofVariables(a).with(a.Env).packed()
	for _, e := range a.Earlier {
		p = p.capturing(e.Capture, workflow.CaptureFormat(e.CaptureFormat)).packed()
	}
	return p.in(a.Phase).perValue(a.PerValue)
}
