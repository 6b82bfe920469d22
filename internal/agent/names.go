package agent

import (
	"slices"
	"strings"

	"prodigy/internal/shell/template"
	"prodigy/internal/workflow"
)

// The variables that prodigy sets for every command. Those of an outer prodigy are not passed on.
const (
	jobVar         = "PRODIGY_JOB_ID"
	itemIDVar      = "PRODIGY_ITEM_ID"
	itemVar        = "PRODIGY_ITEM"
	itemFileVar    = "PRODIGY_ITEM_FILE"
	attemptVar     = "PRODIGY_ATTEMPT"
	producesVar    = "PRODIGY_PRODUCES"
	workerVar      = "PRODIGY_WORKER_ID"
	correlationVar = "PRODIGY_CORRELATION_ID"
	automationVar  = "PRODIGY_AUTOMATION"
	baseVar        = "PRODIGY_BASE"     // with workspaces
	checkoutVar    = "PRODIGY_CHECKOUT" // with workspaces, of their setup

	pwdVar = "PWD" // the working directory, as shells set it

	// Only in a workflow that runs once for each value: the value under two names, its number from 1, and how
	// many there are.
	argVar   = "ARG"
	fileVar  = "FILE"
	indexVar = "INDEX"
	totalVar = "TOTAL"

	valuesVar    = "PRODIGY_VALUES"
	valuesPrefix = "PRODIGY_V" // of the variables that template makes, and of valuesVar
)

// last is the name under which the result of the previous step is kept, beside those of its kind, id and capture.
const last = "last"

// kindAgent is the kind of an agent step. Its name is known only after such a step, so that others may be called so.
const kindAgent = "agent"

// kindTest is the kind of a shell step that is written as `test`, the older way.
const kindTest = "test"

// maxItemVar is the size past which an item does not go into the environment: arguments and environment share
// one limit.
const maxItemVar = 96 << 10

// isOurs reports whether prodigy itself sets the variable of kv.
func isOurs(kv string) bool {
	if !strings.HasPrefix(kv, "PRODIGY_") {
		return false
	}
	name, _, _ := strings.Cut(kv, "=")
	switch name {
	case jobVar, itemIDVar, itemVar, itemFileVar, attemptVar, producesVar, workerVar, correlationVar, automationVar, baseVar, checkoutVar:
		return true
	}
	return strings.HasPrefix(name, valuesPrefix)
}

// valueVars are the names that only a workflow that runs once for each value has.
var valueVars = []string{argVar, fileVar, indexVar, totalVar}

// scopeNames are the names that stand for values of prodigy at one place of a workflow. Its methods return what
// is known at another place.
type scopeNames struct{ template.Names }

// with returns n with one name more.
func (n scopeNames) with(name string, is template.Name) scopeNames {
	return scopeNames{n.Names.With(name, is)}
}

// withResult returns n with the name of what comes from items or from the output of commands.
func (n scopeNames) withResult(name string, fields []string) scopeNames {
	return n.with(name, template.Name{Root: true, Data: true, Fields: fields})
}

// The fields of prodigy's own values.
var (
	resultFields     = strings.Fields("output stderr exit_code success skipped duration duration_ms")
	agentFields      = append(slices.Clip(resultFields), "outcome", "cost", "turns", "session_id", "json")
	validationFields = strings.Fields(`
		completion completion_percentage status missing implemented gaps threshold attempt_number
	`)
	errorFields     = strings.Fields("message type exit_code step attempts")
	workspaceFields = strings.Fields("base branch")
	mergeFields     = strings.Fields(`
		worktree source_branch target_branch session_id commit_count commit_ids commits file_count file_list
		modified_files
	`)
	mapFields = strings.Fields(`
		total successful failed skipped failure_rate duration duration_ms results results_file missing_file cost
		cost_unknown tokens
	`)
)

// globalNames returns the names that every text of a workflow can use.
func globalNames() scopeNames {
	var n scopeNames
	n = n.with("env", template.Name{Root: true})
	n = n.with("workflow", template.Name{Root: true, Fields: []string{"name"}})
	n = n.with("job", template.Name{Root: true, Fields: []string{"id"}})
	for _, name := range []string{"shell", "claude", last} {
		fields := resultFields
		if name != "shell" {
			fields = agentFields
		}
		n = n.withResult(name, fields)
	}
	return n
}

// parameter adds a parameter. Its value comes from whoever runs the workflow.
func (n scopeNames) parameter(name string) scopeNames {
	return n.with(name, template.Name{Root: true, Declared: true})
}

// variable adds a variable whose value may be data.
func (n scopeNames) variable(name string) scopeNames {
	return n.with(name, template.Name{Declared: true})
}

// isConstant reports whether the value of a variable is written out in the workflow file.
func isConstant(v *workflow.EnvVar) bool {
	switch {
	case v.Command != nil || v.Secret:
		return false
	case v.Choice != nil:
		return !strings.Contains(v.Choice.WhenTrue.Value+v.Choice.WhenFalse.Value, "$")
	}
	return v.Literal || !strings.Contains(v.Value.Value, "$")
}

// afterMap returns n as the first step of a phase after the map phase sees it.
func (n scopeNames) afterMap() scopeNames {
	return n.withResult("map", mapFields)
}

// isolated adds the names of a phase of a job with workspaces. Ids and captures of the workflow may be the
// same, and come first.
func (n scopeNames) isolated(is bool, phase string) scopeNames {
	if !is {
		return n
	}
	n = n.with("workspace", template.Name{Root: true, Fields: workspaceFields})
	if phase == phaseReduce || phase == phaseMerge {
		n = n.withResult("merge", mergeFields)
	}
	return n
}

// anyItem is what is known of an item as far as the workflow file shows.
var anyItem = template.Name{Root: true, Declared: true, Data: true}

// agent returns n as the first step of an agent sees it, whose item is so. With perValue ARG and its companions are
// known, with batch the names of a list of items, and with producing that of the files which the agent leaves.
func (n scopeNames) agent(item template.Name, perValue, batch, producing bool) scopeNames {
	n = n.with("item", item)
	n = n.with("item_id", template.Name{Declared: true, Data: true})
	n = n.with("worker", template.Name{Root: true, Fields: []string{"id"}})
	for _, name := range []string{"item_index", "item_total", "attempt"} {
		n = n.with(name, template.Name{Declared: true})
	}
	if perValue {
		for _, name := range valueVars {
			data := name == argVar || name == fileVar
			n = n.with(name, template.Name{Root: true, Declared: true, Data: data, Constant: !data})
		}
	}
	if batch {
		n = n.with("items", template.Name{Root: true, Data: true, List: true})
		n = n.with("items_file", template.Name{Root: true, Declared: true, Constant: true})
	}
	if producing {
		n = n.withResult("produces", nil)
	}
	return n
}

// isData reports whether the values of a name come from items or from the output of commands.
func (n scopeNames) isData(name string) bool {
	is, _ := n.Lookup(name)
	return is.Data
}

// after adds the names that step s leaves to the steps after it.
func (n scopeNames) after(s *workflow.Step) scopeNames {
	n = n.capturing(s.Capture, s.Format)
	if s.Validate != nil {
		n = n.withResult("validation", validationFields)
	}
	if s.Agent != nil {
		n = n.withResult(kindAgent, agentFields)
	}
	if s.Test {
		n = n.withResult(kindTest, resultFields)
	}
	if s.ID != "" {
		fields := resultFields
		if s.Agent != nil || s.Claude != nil {
			fields = agentFields
		}
		n = n.withResult(s.ID, fields)
	}
	return n
}

// capturing adds the name of a capture, which may be empty.
func (n scopeNames) capturing(name string, format workflow.CaptureFormat) scopeNames {
	if name == "" {
		return n
	}
	is := template.Name{Root: true, Declared: true, Data: true, Fields: resultFields}
	if format == workflow.FormatJSON {
		is.Fields = nil
	}
	return n.with(name, is)
}

// each adds the names that the steps of a foreach see.
func (n scopeNames) each(element string) scopeNames {
	for _, name := range []string{element, "index", "total"} {
		n = n.with(name, template.Name{Root: true, Declared: true, Data: true, Constant: name != element})
	}
	return n
}

// failed adds what is known after a failure.
func (n scopeNames) failed() scopeNames {
	return n.withResult("error", errorFields)
}

// withVars adds variables of an env block.
func (n scopeNames) withVars(vars []workflow.EnvVar) scopeNames {
	for i := range vars {
		n = n.with(vars[i].Name, template.Name{Declared: true, Constant: isConstant(&vars[i])})
	}
	return n
}

// variableNames returns the names that the variables of the workflow of a see.
func variableNames(a *Attempt) scopeNames {
	n := globalNames()
	for _, name := range a.Secrets {
		n = n.variable(name)
	}
	for _, arg := range a.Args {
		n = n.parameter(arg.Name)
	}
	return n
}

// namesOf returns the names that the first step of a sees.
func namesOf(a *Attempt) scopeNames {
	n := variableNames(a).withVars(a.Env).isolated(a.Base != "", a.Phase)
	for _, e := range a.Earlier {
		n = n.capturing(e.Capture, workflow.CaptureFormat(e.CaptureFormat))
	}
	switch a.Phase {
	case phaseMap:
		return n.agent(anyItem, a.PerValue, a.Batch, a.Producing)
	case phaseReduce, phaseMerge:
		return n.afterMap()
	}
	return n
}
