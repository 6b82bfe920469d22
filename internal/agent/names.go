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

// scopeNames are the names that stand for values of prodigy at one place of a workflow. The functions below return what
// is known at another place.
type scopeNames = template.Names

// withResult returns n with the name of what comes from items or from the output of commands.
func withResult(n scopeNames, name string, fields []string) scopeNames {
	return n.With(name, template.Name{Root: true, Data: true, Fields: fields})
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
	n = n.With("env", template.Name{Root: true})
	n = n.With("workflow", template.Name{Root: true, Fields: []string{"name"}})
	n = n.With("job", template.Name{Root: true, Fields: []string{"id"}})
	for _, name := range []string{"shell", "claude", last} {
		fields := resultFields
		if name != "shell" {
			fields = agentFields
		}
		n = withResult(n, name, fields)
	}
	return n
}

// A parameter has its value from whoever runs the workflow. The value of a variable may be data.
var (
	aParameter = template.Name{Root: true, Declared: true}
	aVariable  = template.Name{Declared: true}
)

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

// namesAfterMap returns n as the first step of a phase after the map phase sees it.
func namesAfterMap(n scopeNames) scopeNames {
	return withResult(n, "map", mapFields)
}

// withWorkspace adds the names of a phase of a job with workspaces. Ids and captures of the workflow may be the
// same, and come first.
func withWorkspace(n scopeNames, is bool, phase string) scopeNames {
	if !is {
		return n
	}
	n = n.With("workspace", template.Name{Root: true, Fields: workspaceFields})
	if phase == phaseReduce || phase == phaseMerge {
		n = withResult(n, "merge", mergeFields)
	}
	return n
}

// anyItem is what is known of an item as far as the workflow file shows.
var anyItem = template.Name{Root: true, Declared: true, Data: true}

// agentNames returns n as the first step of an agent sees it, with what is known of its item. With perValue ARG and its
// companions are known, with batch the names of a list of items, and with producing that of the files that the agent
// leaves.
func agentNames(n scopeNames, item template.Name, perValue, batch, producing bool) scopeNames {
	n = n.With("item", item)
	n = n.With("item_id", template.Name{Declared: true, Data: true})
	n = n.With("worker", template.Name{Root: true, Fields: []string{"id"}})
	for _, name := range []string{"item_index", "item_total", "attempt"} {
		n = n.With(name, aVariable)
	}
	if perValue {
		for _, name := range valueVars {
			data := name == argVar || name == fileVar
			n = n.With(name, template.Name{Root: true, Declared: true, Data: data, Constant: !data})
		}
	}
	if batch {
		n = n.With("items", template.Name{Root: true, Data: true, List: true})
		n = n.With("items_file", template.Name{Root: true, Declared: true, Constant: true})
	}
	if producing {
		n = withResult(n, "produces", nil)
	}
	return n
}

// isData reports whether the values of a name come from items or from the output of commands.
func isData(n scopeNames, name string) bool {
	is, _ := n.Lookup(name)
	return is.Data
}

// namesAfter adds the names that step s leaves to the steps after it.
func namesAfter(n scopeNames, s *workflow.Step) scopeNames {
	n = withCapture(n, s.Capture, s.Format)
	if s.Validate != nil {
		n = withResult(n, "validation", validationFields)
	}
	if s.Agent != nil {
		n = withResult(n, kindAgent, agentFields)
	}
	if s.Test {
		n = withResult(n, kindTest, resultFields)
	}
	if s.ID != "" {
		fields := resultFields
		if s.Agent != nil || s.Claude != nil {
			fields = agentFields
		}
		n = withResult(n, s.ID, fields)
	}
	return n
}

// withCapture adds the name of a capture, which may be empty.
func withCapture(n scopeNames, name string, format workflow.CaptureFormat) scopeNames {
	if name == "" {
		return n
	}
	is := template.Name{Root: true, Declared: true, Data: true, Fields: resultFields}
	if format == workflow.FormatJSON {
		is.Fields = nil
	}
	return n.With(name, is)
}

// withElement adds the names that the steps of a foreach see.
func withElement(n scopeNames, element string) scopeNames {
	for _, name := range []string{element, "index", "total"} {
		n = n.With(name, template.Name{Root: true, Declared: true, Data: true, Constant: name != element})
	}
	return n
}

// withFailure adds what is known after a failure.
func withFailure(n scopeNames) scopeNames {
	return withResult(n, "error", errorFields)
}

// withVars adds variables of an env block.
func withVars(n scopeNames, vars []workflow.EnvVar) scopeNames {
	for i := range vars {
		n = n.With(vars[i].Name, template.Name{Declared: true, Constant: isConstant(&vars[i])})
	}
	return n
}

// variableNames returns the names that the variables of the workflow of a see.
func variableNames(a *Attempt) scopeNames {
	n := globalNames()
	for _, name := range a.Secrets {
		n = n.With(name, aVariable)
	}
	for _, arg := range a.Args {
		n = n.With(arg.Name, aParameter)
	}
	return n
}

// namesOf returns the names that the first step of a sees.
func namesOf(a *Attempt) scopeNames {
	n := withWorkspace(withVars(variableNames(a), a.Env), a.Base != "", a.Phase)
	for _, e := range a.Earlier {
		n = withCapture(n, e.Capture, workflow.CaptureFormat(e.CaptureFormat))
	}
	switch a.Phase {
	case phaseMap:
		return agentNames(n, anyItem, a.PerValue, a.Batch, a.Producing)
	case phaseReduce, phaseMerge:
		return namesAfterMap(n)
	}
	return n
}
