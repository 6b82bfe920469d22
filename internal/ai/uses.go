package ai

import (
	"cmp"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"

	"prodigy/internal/workflow"
)

// Of returns the presets of a workflow: those that are built in, changed by layers and by its own.
func Of(w *workflow.Workflow, layers []Layer) (Set, error) {
	if w.Agents != nil {
		layers = append(slices.Clip(layers), Layer{Name: w.File, Node: w.Agents.Node})
	}
	return Load(layers...)
}

// Runs reports whether a step of a workflow runs a CLI.
func Runs(w *workflow.Workflow) bool {
	for _, s := range w.EachStep() {
		if s.Agent != nil || s.Claude != nil {
			return true
		}
	}
	return false
}

// Wanted reports whether the presets of a workflow have to be read.
func Wanted(w *workflow.Workflow) bool { return w.Agents != nil || Runs(w) }

// UsedBy returns those of the presets that a workflow uses, or a *workflow.InvalidError about what they cannot do.
func (set Set) UsedBy(w *workflow.Workflow) (Set, error) {
	var problems []workflow.Problem
	used := Set{}
	for _, s := range w.EachStep() {
		if s.Claude != nil {
			used[workflow.DefaultAgent] = set[workflow.DefaultAgent]
		}
		if s.Agent == nil {
			continue
		}
		problem := func(format string, args ...any) {
			problems = append(problems, problemAt(w, s.Agent.Prompt.Pos, format, args...))
		}
		p, err := set.Find(s.Agent.Preset())
		if err != nil {
			problem("use: %v", err)
			continue
		}
		used[p.Name] = p
		said := p.May.Said(slices.Concat(p.Argv, p.Args, s.Agent.Args))
		_, _, mayBeTold := p.May.Of(s.Agent.May)
		switch {
		case s.Agent.May != "" && said != "":
			problem("may: the argument %s also sets this; use one of them", said)
		case s.Agent.May != "" && !mayBeTold:
			problem("may: %s has no option for %s", p.Name, s.Agent.May)
		case s.Agent.MaxTurns > 0 && p.Options["max_turns"] == nil && p.Watch.Turn == "":
			problem("max_turns: %s has no option to limit turns", p.Name)
		case s.Agent.MaxCost > 0 && !p.TellsCost(cmp.Or(s.Agent.Model, p.Model)):
			problem("max_cost: %s does not report its cost; set the price of its model (agents.%s.prices)",
				p.Name, p.Name)
		case s.Agent.Model != "" && p.Options["model"] == nil:
			problem("model: %s has no option to choose a model", p.Name)
		}
	}
	if problems != nil {
		return nil, &workflow.InvalidError{Problems: problems}
	}
	return used, nil
}

// CheckBudget reports an agent that does not say what it costs, so that no budget in money can hold it.
func (set Set) CheckBudget(w *workflow.Workflow) error {
	for _, s := range w.EachStep() {
		if s.Agent == nil {
			continue
		}
		if p := set[s.Agent.Preset()]; !p.TellsCost(cmp.Or(s.Agent.Model, p.Model)) {
			const message = "budget: %s does not report its cost, so a budget in dollars cannot be enforced; " +
				"set the price of its model (agents.%s.prices), or limit its tokens (budget: {tokens: 20M})"
			return invalid(w, s.Agent.Prompt.Pos, message, p.Name, p.Name)
		}
	}
	return nil
}

func invalid(w *workflow.Workflow, at workflow.Pos, message string, args ...any) error {
	return &workflow.InvalidError{Problems: []workflow.Problem{problemAt(w, at, message, args...)}}
}

func problemAt(w *workflow.Workflow, at workflow.Pos, message string, args ...any) workflow.Problem {
	return w.ProblemAt(at, fmt.Sprintf(message, args...))
}

// CheckInstalled finds the executables of the CLIs that those steps of w use that run here. Claude is the argv of
// claude steps.
func (set Set) CheckInstalled(w *workflow.Workflow, claude []string, here func(workflow.StepRef) bool) error {
	for at, s := range w.EachStep() {
		if s.Agent == nil && s.Claude == nil || !here(at) {
			continue
		}
		program, pos := claude[0], workflow.Pos{}
		instead := "PRODIGY_CLAUDE_COMMAND, or agent.command in config.yml"
		if s.Agent != nil {
			program, pos = set[s.Agent.Preset()].Argv[0], s.Agent.Prompt.Pos
			instead = "argv of agents." + s.Agent.Preset()
		} else {
			pos = s.Claude.Pos
		}
		if _, err := exec.LookPath(program); err != nil {
			return invalid(w, pos, "%s: %q not found on PATH: install it, or set %s", s.Kind(), program, instead)
		}
	}
	return nil
}

// Programs returns the CLIs that w runs in steps that on picks, by the names that they are started with.
func (set Set) Programs(w *workflow.Workflow, claude []string, on func(workflow.StepRef) bool) []string {
	var all []string
	for at, s := range w.EachStep() {
		switch {
		case !on(at):
		case s.Claude != nil:
			all = append(all, claude[0])
		case s.Agent != nil:
			all = append(all, set[s.Agent.Preset()].Argv[0])
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// WarnOfPermissions returns a warning for each step whose CLI may do less than its agent may try, where nobody has
// said what it may. Claude is the command of claude steps, which may read its prompt or not.
func (set Set) WarnOfPermissions(w *workflow.Workflow, claude []string, readsPrompt bool) []workflow.Problem {
	var warnings []workflow.Problem
	for _, s := range w.EachStep() {
		name, argv, at := workflow.DefaultAgent, claude, workflow.Pos{}
		switch {
		case s.Agent != nil && s.Agent.May == "":
			name, at = s.Agent.Preset(), s.Agent.Prompt.Pos
			argv = slices.Concat(set[name].Argv, s.Agent.Args)
		case s.Claude != nil && readsPrompt:
			at = s.Claude.Pos
		default:
			continue
		}
		p := set[name]
		if edit, _, _ := p.May.Of(workflow.MayEdit); len(edit) == 0 || p.May.Said(slices.Concat(argv, p.Args)) != "" {
			continue
		}
		message := `without "may" in the agent step, %s changes files and runs commands only as its own settings allow; set may: read, may: edit or may: all`
		if w.Workspace.Isolated() && (s.WorkingDir == nil || !filepath.IsAbs(s.WorkingDir.Value)) {
			message = `without "may" in the agent step, %s may only edit files, and do what its own settings allow; to let it run tests or other commands, set may: all, otherwise may: edit`
		}
		warnings = append(warnings, problemAt(w, at, message, name))
	}
	return warnings
}
