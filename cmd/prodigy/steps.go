package main

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"prodigy/internal/workflow"
)

// place is where in a workflow a step stands.
type place struct {
	section string // setup, map, reduce, merge, commands, or handlers.<name>
	label   string // of the step; of a handler's step, after that of the step it follows
	handler bool   // it follows another step
}

// section is a named list of steps.
type section struct {
	name  string
	steps []workflow.Step
}

// handler tells whether these are the steps of a handler of failed items.
func (s section) handler() bool { return strings.HasPrefix(s.name, "handlers.") }

// phase returns the phase in which the steps run.
func (s section) phase() string {
	if s.name == "commands" {
		return ""
	}
	return s.name
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
	add("commands", w.Commands)
	phase("setup", w.Setup)
	if w.Map != nil {
		add("map", w.Map.AgentTemplate)
	}
	phase("reduce", w.Reduce)
	phase("merge", w.Merge)
	for _, name := range slices.Sorted(maps.Keys(w.Handlers)) {
		add("handlers."+name, w.Handlers[name])
	}
	return all
}

// stepsOf yields every step of a workflow, each followed by the steps that its end may lead to.
func stepsOf(w *workflow.Workflow) iter.Seq2[place, workflow.Step] {
	return func(yield func(place, workflow.Step) bool) {
		for _, s := range sectionsOf(w) {
			if !eachStep(place{section: s.name}, s.steps, yield) {
				return
			}
		}
	}
}

// eachStep yields steps, which stand at p, and reports whether there is to be more.
func eachStep(p place, steps []workflow.Step, yield func(place, workflow.Step) bool) bool {
	for i, step := range steps {
		at := p
		at.label = p.label + step.Label(i)
		if !yield(at, step) {
			return false
		}
		for key, steps := range step.Following() {
			below := place{section: p.section, label: at.label + " " + key + " ", handler: true}
			if !eachStep(below, steps, yield) {
				return false
			}
		}
	}
	return true
}

// upTo says a number of runs in words.
func upTo(n int) string {
	if n == 1 {
		return "1 run"
	}
	return fmt.Sprintf("up to %d runs", n)
}
