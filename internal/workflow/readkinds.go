package workflow

import (
	"slices"

	"gopkg.in/yaml.v3"

	"prodigy/internal/check"
	"prodigy/internal/shell"
)

// parallelTrue is what `parallel: true` stands for.
const parallelTrue = 10

func (f *Foreach) read(r *reader, e entry) bool {
	keys := r.fields(f)
	keys.read("as", into(&f.As, r.elementName))
	keys.read("parallel", into(&f.Parallel, r.parallel))
	r.readWith(e, f, keys)
	return true
}

func (all *Elements) read(r *reader, e entry) bool {
	if e.value.Kind != yaml.SequenceNode {
		text, ok := r.filledText(e)
		all.Command = &text
		return ok
	}
	all.List = make([]Element, len(e.value.Content))
	for i, n := range e.value.Content {
		n = resolveAlias(n)
		if hasTag(n, "!!str") {
			all.List[i].Text = new(r.withPos(n, n.Value))
		} else {
			all.List[i].JSON = r.json(nil, n)
		}
	}
	return true
}

// elementName reads a name for the element. It may be item, which hides the item of the agent.
func (r *reader) elementName(e entry) (string, bool) {
	name, ok := r.text(e)
	switch {
	case !ok:
	case name == "index", name == "total":
		r.fail(e.value, "%s: %q is reserved in foreach; choose another name", e.name, name)
	case name != "item":
		r.checkName(e, name, shell.IsName, "letters, digits and underscores")
	}
	return name, ok
}

// parallel reads a number, or true for parallelTrue.
func (r *reader) parallel(e entry) (int, bool) {
	if !hasTag(e.value, "!!bool") {
		n, ok := r.integer(e)
		return n, ok && r.bounded(e, float64(n), `least:"1"`)
	}
	if many, _ := r.boolean(e); many {
		return parallelTrue, true
	}
	return 1, true
}

const (
	allComplete        = 100
	completionAttempts = 2
)

// read reads a list of steps, a mapping with commands or only a result_file, or one step whose mapping also has the
// keys of the validation. retry_defaults do not apply to its steps: an incomplete result is not a failure to retry.
func (v *Validate) read(r *reader, e entry) bool {
	defaults := r.defaults
	r.defaults = nil
	defer func() { r.defaults = defaults }()
	v.Threshold = allComplete
	keys := r.fields(v)
	keys.read("on_incomplete", func(e entry) { v.OnIncomplete = r.onIncomplete(e, defaults) })
	switch {
	case e.value.Kind == yaml.SequenceNode:
		v.Commands = r.steps(e)
	case e.value.Kind != yaml.MappingNode:
		r.wrongType(e, "a step or a list of steps")
	// It may only read a result_file, which the step itself has written.
	case find(e.value, "commands") != nil, find(e.value, "result_file") != nil &&
		!slices.ContainsFunc(r.entries(e.value), func(w entry) bool { return keys.find(w.name) == nil }):
		r.block("validate", e, keys)
	default:
		s, _ := r.step(e, slices.DeleteFunc(keys, func(k key) bool { return check.Among("commands timeout", k.name) }))
		v.Commands = []Step{s}
	}
	return true
}

// onIncomplete reads the steps as those of a failure handler. retry_defaults apply to them.
func (r *reader) onIncomplete(e entry, defaults *positionedPolicy) *OnIncomplete {
	r.defaults = defaults
	defer func() { r.defaults = nil }()
	on := &OnIncomplete{MaxAttempts: completionAttempts, FailWorkflow: true}
	on.Steps = r.stepsOf(e, "a step or a list of steps", e.name, r.fields(on))
	return on
}
