package mapreduce

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"prodigy/internal/agent"
	"prodigy/internal/items"
	"prodigy/internal/settings"
	"prodigy/internal/workflow"
)

// Check finds what can be known to be wrong with a parsed workflow before anything runs: unknown values in commands, a missing
// input file, a path or filter that does not parse. It returns what to warn of; the error is a *workflow.InvalidError.
func Check(c Config, w *workflow.Workflow) ([]workflow.Problem, error) {
	problems, warnings := agent.Check(w)
	problems = append(problems, settings.Check(w)...)
	if w.Map != nil {
		problems = append(problems, items.Check(w.Map)...)
		if w.Setup == nil { // which might make the input
			problems = append(problems, items.CheckInput(w.Map, items.Env{Dir: c.Dir, Environ: c.Settings.Environ(c.Environ), Fill: c.Settings.Fill})...)
		}
		if _, err := maxParallel(c, w); err != nil {
			problems = append(problems, problemAt(w, w.Map.MaxParallel.Pos, err.Error()))
		}
		problems = append(problems, checkLimits(c, w)...)
	}
	warnings = slices.Concat(w.Warnings, warnings)
	for i := range problems {
		problems[i].File = w.File
	}
	sortByPlace(warnings)
	if len(problems) == 0 {
		return warnings, nil
	}
	sortByPlace(problems)
	return warnings, &workflow.InvalidError{Problems: problems}
}

func sortByPlace(problems []workflow.Problem) {
	slices.SortStableFunc(problems, func(a, b workflow.Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
}

func problemAt(w *workflow.Workflow, at workflow.Pos, message string) workflow.Problem {
	return workflow.Problem{File: w.File, Line: at.Line, Col: at.Col, Message: message}
}

// Slots returns how many agents a run would have at once. The workflow has been checked.
func Slots(c Config, w *workflow.Workflow) int {
	n, err := maxParallel(c, w)
	if err != nil {
		panic("BUG: the slots of a workflow that was not checked: " + err.Error())
	}
	return n
}

// maxParallel returns the number of slots: what the run was told, else what the workflow says, there perhaps by a variable of
// the workflow's env or of the environment.
func maxParallel(c Config, w *workflow.Workflow) (int, error) {
	switch {
	case c.MaxParallel > 0:
		return c.MaxParallel, nil
	case w.Map == nil:
		return 1, nil
	case w.Map.MaxParallel.Var == "":
		return max(1, w.Map.MaxParallel.Value), nil
	}
	name := w.Map.MaxParallel.Var
	text, ok := lookup(c, w, name)
	if !ok {
		return 0, fmt.Errorf("max_parallel: the variable %s is not set", name)
	}
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < 1 {
		return 0, fmt.Errorf("max_parallel: the variable %s is %q, which is not a whole number from 1", name, text)
	}
	return n, nil
}

// lookup returns the value of an environment variable as a step would see it, if it is known before the run.
func lookup(c Config, w *workflow.Workflow, name string) (string, bool) {
	if value, ok := c.Settings.Lookup(name); ok {
		return value, true
	}
	for _, v := range slices.Backward(w.Env) { // for who has not looked for the settings
		if v.Name == name && v.Command == nil && v.Choice == nil {
			return v.Value.Value, true
		}
	}
	for _, entry := range slices.Backward(c.Environ) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value, true
		}
	}
	return "", false
}
