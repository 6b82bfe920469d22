package agent

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"prodigy/internal/check"
	"prodigy/internal/shell/template"
	"prodigy/internal/workflow"
)

// Check compiles every text of a workflow that can hold values, whichever profile will be chosen, and returns
// the errors and warnings in the order of the file.
func Check(w *workflow.Workflow) (problems, warnings []workflow.Problem) {
	return checked(w, nil).problems(w)
}

// CheckFields returns the placeholders of w that name a field which none of its items has: those that surely
// fail, and those of steps that a condition may skip. Fields are all that the items have, and nil when each
// item is a text. Conditions may name any field: one that is missing is null.
func CheckFields(w *workflow.Workflow, fields []string) (problems, warnings []workflow.Problem) {
	item := template.Name{
		Root: true, Declared: true, Data: true, Seen: true, Text: fields == nil,
		Fields: append([]string{"output"}, fields...),
	}
	before := checked(w, nil).findings
	c := checked(w, &item)
	c.findings = slices.DeleteFunc(c.findings, func(f finding) bool { return slices.Contains(before, f) })
	for i, f := range c.findings {
		if f.conditional {
			c.findings[i].severity = template.Warning
		}
	}
	return c.problems(w)
}

// checked compiles every text of a workflow. Item is what is known of the items; nil means what the workflow says.
func checked(w *workflow.Workflow, item *template.Name) *compiler {
	c := new(compiler)
	names := globalNames()
	if len(w.EnvFiles) > 0 {
		names = names.Open() // they are read when a job starts
	}
	for _, p := range w.Parameters {
		names = names.With(p.Name, aParameter)
	}
	for _, s := range w.Secrets {
		c.envName(s.Name, s.Pos)
		names = names.With(s.Name, aVariable)
	}
	c.env(nil, w.Env, names)
	names = withVars(names, w.Env)
	for _, p := range w.Profiles {
		c.env(nil, p.Env, names)
	}
	for _, p := range w.Profiles {
		names = withVars(names, p.Env)
	}

	isolated := w.Workspace.Isolated()
	steps := withWorkspace(names, isolated, "")
	checkout := workflow.EnvVar{Name: checkoutVar, Literal: true}
	c.list(w.Workspace.Setup, withVars(steps, []workflow.EnvVar{checkout}), "workspace.setup/")
	if v := w.Workspace.Verify; v != nil {
		c.list(v.Commands, steps, "workspace.verify/")
	}
	names = steps
	if w.Mode == workflow.MapReduce { // all phases see what setup captures, merge what reduce captures, nobody else what an agent captures
		names = c.phase(w.Setup, names)
		if w.Map != nil {
			keys := []*workflow.Text{&w.Map.Label, w.Map.Rate.Per, w.BreakerPer}
			for _, s := range w.Map.AgentTemplate {
				if s.Rate != nil {
					keys = append(keys, s.Rate.Per)
				}
			}
			for _, text := range slices.Concat(w.Map.Uses, w.Map.Produces) {
				keys = append(keys, &text)
			}
			for _, text := range keys {
				if text != nil {
					_, err := compileItemText(*text)
					c.failed(nil, text.At, err)
				}
			}
			if item == nil {
				item = &anyItem
				if w.Map.ItemsAreTexts() {
					item = &template.Name{Root: true, Declared: true, Data: true, Text: true, Fields: []string{"output"}}
				}
			}
			agents := agentNames(names, *item, w.Map.ItemsFromArgs, w.Map.Batch > 0, len(w.Map.Produces) > 0)
			_, after := c.list(w.Map.AgentTemplate, agents, "")
			c.list(w.Workspace.Resolve, agents, "")
			c.handlers(w, after)
		}
		names = c.phase(w.Reduce, namesAfterMap(withWorkspace(names, isolated, phaseReduce)))
		c.phase(w.Merge, namesAfterMap(names))
	} else {
		_, names = c.list(w.Commands, names, "")
		if w.Merge != nil && isolated { // of a standard workflow, which has no items
			c.phase(w.Merge, withWorkspace(names, isolated, phaseMerge))
		}
		c.handlers(w, names)
	}
	return c
}

// phase compiles the steps of p, which may be nil, and returns the names that the next phase sees.
func (c *compiler) phase(p *workflow.Phase, n scopeNames) scopeNames {
	if p == nil {
		return n
	}
	c.list(p.Commands, n, "")
	for i := range p.Commands {
		n = withCapture(n, p.Commands[i].Capture, p.Commands[i].Format)
	}
	return n
}

// handlers compiles the custom handlers of items, in the order of their names.
func (c *compiler) handlers(w *workflow.Workflow, n scopeNames) {
	for _, steps := range check.ByKey(w.Handlers) {
		c.list(steps, withFailure(n), "")
	}
}

// problems returns the errors and the warnings among the findings, in the order of the file.
func (c *compiler) problems(w *workflow.Workflow) (problems, warnings []workflow.Problem) {
	slices.SortStableFunc(c.findings, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.at.Line, b.at.Line), cmp.Compare(a.at.Col, b.at.Col))
	})
	for _, f := range c.findings {
		p := w.ProblemAt(f.at, f.message)
		if f.severity == template.Error {
			problems = append(problems, p)
			continue
		}
		warnings = append(warnings, p)
	}
	return problems, warnings
}

// CheckShared returns an error for each step by which agents that run at once, or elements of a foreach that
// do, would take each other's work for their own: a commit in a directory that they share, or a result_file
// that all of them write. slots is how many agents run at once. Edits are steps that change files or commits where they
// share a directory: in a git checkout they change what others are at, and commit it.
func CheckShared(w *workflow.Workflow, slots int) (problems, edits []workflow.Problem) {
	c := &sharedCheck{w: w}
	c.steps(w.Commands, atOnce{}, false)
	for _, p := range []*workflow.Phase{w.Setup, w.Reduce, w.Merge} {
		if p != nil {
			c.steps(p.Commands, atOnce{}, false)
		}
	}
	if w.Map != nil {
		agents := atOnce{n: slots, of: "agents", mend: "max_parallel: 1", name: "${item_id}"}
		if !w.Workspace.Isolated() {
			agents.workspace = "set workspace: git at the root of the file, or "
		}
		c.steps(w.Map.AgentTemplate, agents, w.Workspace.Isolated())
		for _, steps := range check.ByKey(w.Handlers) {
			c.steps(steps, agents, w.Workspace.Isolated())
		}
	}
	if w.Workspace.Mode != "" || w.SharedDirectory != "" {
		c.edits = nil
	}
	return c.problems, c.edits
}

// atOnce is what runs several times at once.
type atOnce struct {
	n          int
	of         string // agents, elements
	mend, name string // the key that makes it one at a time, and a name that differs in each
	workspace  string // what else gives each a directory, for messages
}

type sharedCheck struct {
	w        *workflow.Workflow
	problems []workflow.Problem
	edits    []workflow.Problem
}

// steps checks steps of which each has a directory of its own if ownDir is set.
func (c *sharedCheck) steps(steps []workflow.Step, a atOnce, ownDir bool) {
	for i := range steps {
		s := &steps[i]
		own := ownDir
		if s.WorkingDir != nil {
			own = differs(s.WorkingDir.Value) || ownDir && !filepath.IsAbs(s.WorkingDir.Value)
		}
		if s.CommitRequired && a.n > 1 && !own {
			c.problems = append(c.problems, c.problem(s.Pos, "commit_required: %d %s run at a time in one directory, and each would take the others' commits for its own; %suse a directory for each, such as working_dir: wt/%s, or set %s", a.n, a.of, a.workspace, a.name, a.mend))
		}
		if what := s.Edits(); what != "" && a.n > 1 && !own && !s.CommitRequired {
			c.edits = append(c.edits, c.problem(s.Pos, "%s: %d %s run at a time in one git checkout, where they change each other's files and commits; set workspace: git at the root of the file (prodigy validate --fix adds it), or shared_directory: ok if this is intended", what, a.n, a.of))
		}
		if v := s.Validate; v != nil && v.ResultFile != nil && a.n > 1 && !differs(v.ResultFile.Value) &&
			(!own || filepath.IsAbs(v.ResultFile.Value)) {
			c.problems = append(c.problems, c.problem(v.ResultFile.At(1, 1), "result_file: %d %s run at a time and would read each other's results; use a name for each, such as result-%s.json, or set %s", a.n, a.of, a.name, a.mend))
		}
		for key, nested := range s.NestedSteps() {
			inner, innerOwn := a, own
			if key == "do" {
				innerOwn = ownDir
				if s.Foreach.Parallel > 1 {
					inner, innerOwn = atOnce{
						n: s.Foreach.Parallel, of: "elements", mend: "parallel: 1", name: "${index}",
					}, false
				}
			}
			c.steps(nested, inner, innerOwn)
		}
	}
}

// differs reports whether a text may differ between what runs at once: it has a value.
func differs(text string) bool { return strings.Contains(text, "$") }

func (c *sharedCheck) problem(at workflow.Pos, format string, args ...any) workflow.Problem {
	return c.w.ProblemAt(at, fmt.Sprintf(format, args...))
}
