package cli

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"prodigy/internal/workflow"
)

// stepRef identifies a step in a workflow.
type stepRef struct {
	section string // setup, map, reduce, merge, commands, handlers.<name>, workspace.setup, workspace.verify or workspace.resolve
	label   string // of the step; a hook's step is prefixed with the label of its step
	handler bool   // a step of a hook or handler
}

// section is a named list of steps.
type section struct {
	name  string
	steps []workflow.Step
}

// handler reports whether these are the steps of a handler of failed items.
func (s section) handler() bool { return strings.HasPrefix(s.name, "handlers.") }

// phase returns the phase in which the steps run.
func (s section) phase() string {
	switch s.name {
	case "workspace.resolve":
		return "map"
	case "setup", "map", "reduce", "merge":
		return s.name
	}
	return ""
}

// sectionsOf returns the lists of steps of a workflow in the order in which they run, handlers last.
func sectionsOf(w *workflow.Workflow) []section {
	var all []section
	add := func(name string, steps []workflow.Step) {
		if len(steps) > 0 {
			all = append(all, section{name, steps})
		}
	}
	phase := func(name string, p *workflow.Phase) {
		if p != nil {
			add(name, p.Commands)
		}
	}
	if w.Workspace.Isolated() {
		add("workspace.setup", w.Workspace.Setup)
	}
	add("commands", w.Commands)
	phase("setup", w.Setup)
	if w.Map != nil {
		add("map", w.Map.AgentTemplate)
		if w.Workspace.Isolated() {
			add("workspace.resolve", w.Workspace.Resolve)
		}
	}
	if v := w.Workspace.Verify; v != nil && w.Workspace.Isolated() {
		add("workspace.verify", v.Commands)
	}
	phase("reduce", w.Reduce)
	phase("merge", w.Merge)
	for _, name := range slices.Sorted(maps.Keys(w.Handlers)) {
		add("handlers."+name, w.Handlers[name])
	}
	return all
}

// stepsOf yields every step of a workflow, each followed by the steps of its hooks.
func stepsOf(w *workflow.Workflow) iter.Seq2[stepRef, workflow.Step] {
	return func(yield func(stepRef, workflow.Step) bool) {
		for _, s := range sectionsOf(w) {
			if !eachStep(stepRef{section: s.name}, s.steps, yield) {
				return
			}
		}
	}
}

// eachStep yields the steps at p and those of their hooks. It reports false if yield stopped it.
func eachStep(p stepRef, steps []workflow.Step, yield func(stepRef, workflow.Step) bool) bool {
	for i, step := range steps {
		at := p
		at.label = p.label + step.Label(i)
		if !yield(at, step) {
			return false
		}
		for key, steps := range step.NestedSteps() {
			below := stepRef{section: p.section, label: at.label + " " + key + " ", handler: true}
			if !eachStep(below, steps, yield) {
				return false
			}
		}
	}
	return true
}

// runsOnWorkers reports whether a job on a fleet runs the steps of this section on its workers.
func (r stepRef) runsOnWorkers() bool {
	switch r.section {
	case "map", "workspace.setup", "workspace.resolve":
		return true
	}
	return section{name: r.section}.handler()
}

// runsHere reports whether a job of w on a fleet runs them where it was started.
func (r stepRef) runsHere(w *workflow.Workflow) bool {
	return !r.runsOnWorkers() || r.section == "workspace.setup" && w.Workspace.Verify != nil // which has a workspace, too
}

// upTo prints a maximum number of runs.
func upTo(n int) string {
	if n == 1 {
		return "1 run"
	}
	return fmt.Sprintf("up to %d runs", n)
}
