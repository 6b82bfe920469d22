package workflow

import (
	"iter"
	"strings"

	"prodigy/internal/check"
)

// StepRef identifies a step in a workflow.
type StepRef struct {
	Section string // as Section.Name
	Label   string // of the step; a hook's step is prefixed with the label of its step
	Logged  string // the label by which the log has it
	Handler bool   // a step of a hook or handler
}

// Section is a named list of steps: setup, map, reduce, merge, commands, handlers.<name>, workspace.setup,
// workspace.verify or workspace.resolve.
type Section struct {
	Name  string
	Steps []Step
}

// IsHandler reports whether these are the steps of a handler of failed items.
func (s Section) IsHandler() bool { return strings.HasPrefix(s.Name, "handlers.") }

// Phase returns the phase in which the steps run.
func (s Section) Phase() string {
	switch s.Name {
	case "workspace.resolve":
		return "map"
	case "setup", "map", "reduce", "merge":
		return s.Name
	}
	return ""
}

// Sections returns the lists of steps in the order in which they run, handlers last.
func (w *Workflow) Sections() []Section {
	var all []Section
	add := func(name string, steps []Step) {
		if len(steps) > 0 {
			all = append(all, Section{name, steps})
		}
	}
	phase := func(name string, p *Phase) {
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
	for name, steps := range check.ByKey(w.Handlers) {
		add("handlers."+name, steps)
	}
	return all
}

// EachStep yields every step, each followed by the steps of its hooks.
func (w *Workflow) EachStep() iter.Seq2[StepRef, Step] {
	return func(yield func(StepRef, Step) bool) {
		for _, s := range w.Sections() {
			if !eachStep(StepRef{Section: s.Name}, s.Steps, yield) {
				return
			}
		}
	}
}

// EachStep yields every step of a section, each followed by the steps of its hooks.
func (s Section) EachStep() iter.Seq2[StepRef, Step] {
	return func(yield func(StepRef, Step) bool) {
		eachStep(StepRef{Section: s.Name, Handler: s.IsHandler()}, s.Steps, yield)
	}
}

// eachStep yields the steps at p and those of their hooks. It reports false if yield stopped it.
func eachStep(p StepRef, steps []Step, yield func(StepRef, Step) bool) bool {
	for i, step := range steps {
		at := p
		at.Label, at.Logged = p.Label+step.Label(i), p.Logged+step.Label(i)
		if !yield(at, step) {
			return false
		}
		for key, steps := range step.NestedSteps() {
			below := StepRef{
				Section: p.Section, Label: at.Label + " " + key + " ", Logged: LabelPrefix(at.Logged, key), Handler: true,
			}
			if !eachStep(below, steps, yield) {
				return false
			}
		}
	}
	return true
}

// RunsOnWorkers reports whether a job on a fleet runs the steps of this section on its workers.
func (r StepRef) RunsOnWorkers() bool {
	switch r.Section {
	case "map", "workspace.setup", "workspace.resolve":
		return true
	}
	return Section{Name: r.Section}.IsHandler()
}

// RunsHere reports whether a job of w on a fleet runs them where it was started.
func (r StepRef) RunsHere(w *Workflow) bool {
	// which has a workspace, too
	return !r.RunsOnWorkers() || r.Section == "workspace.setup" && w.Workspace.Verify != nil
}

// StepRates says how often steps of agents start at most.
func (w *Workflow) StepRates() (rates []string) {
	if w.Map == nil {
		return nil
	}
	for i, s := range w.Map.AgentTemplate {
		if s.Rate == nil {
			continue
		}
		rates = append(rates, "step "+s.Label(i)+": at most "+s.Rate.String())
	}
	return rates
}

// Stragglers says what becomes of attempts that take unusually long. It is empty when nothing does.
func (w *Workflow) Stragglers() string {
	if w.Map == nil || w.Map.Straggler == nil {
		return ""
	}
	text := "stragglers: after " + w.Map.Straggler.After.String()
	if w.Map.Straggler.Stop {
		return text + ", which are stopped"
	}
	return text + ", which are told"
}

// Rate says how often agents start at most. It is empty when there is no limit.
func (w *Workflow) Rate() string {
	if w.Map == nil || w.Map.Rate.Limit.Count == 0 {
		return ""
	}
	return w.Map.Rate.String()
}

func (v Rate) String() string {
	if v.Per == nil {
		return v.Limit.String()
	}
	return v.Limit.String() + " for each " + v.Per.Value
}
