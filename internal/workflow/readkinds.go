package workflow

import (
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"prodigy/internal/posix"
)

func (r *reader) writeFile(e entry) *WriteFile {
	w := new(WriteFile)
	keys := r.fields(w)
	keys = withReader(keys, "content", func(e entry) { set(&w.Content)(r.maybeBlankText(e)) })
	keys = withReader(keys, "format", func(e entry) { set(&w.Format)(word(r, e, TextFile, JSONFile, YAMLFile)) })
	keys = withReader(keys, "mode", func(e entry) { setPointer(&w.Mode)(r.permissions(e)) })
	if b := r.block("write_file", e, keys); b != nil {
		r.require(b, "path")
		r.require(b, "content")
	}
	return w
}

// agent reads a prompt, or a mapping with one.
func (r *reader) agent(e entry) *Agent {
	a := new(Agent)
	if e.value.Kind != yaml.MappingNode {
		set(&a.Prompt)(r.textWithPos(e))
		return a
	}
	keys := r.fields(a)
	keys = withReader(keys, "use", func(e entry) { set(&a.Use)(r.constantText(e)) })
	keys = withReader(keys, "model", func(e entry) { set(&a.Model)(r.constantText(e)) })
	keys = withReader(keys, "schema", func(e entry) { set(&a.Schema)(r.constantText(e)) })
	keys = withReader(keys, "max_turns", func(e entry) { set(&a.MaxTurns)(r.atLeast(e, 1)) })
	keys = withReader(keys, "args", func(e entry) { a.Args = r.constantTexts(e) })
	if b := r.block("agent", e, keys); b != nil {
		r.require(b, "prompt")
	}
	return a
}

// constantText reads a text that is the same for all items.
func (r *reader) constantText(e entry) (string, bool) {
	text, ok := r.nonBlank(e)
	if ok && strings.Contains(text, "${") {
		r.fail(e.value, "%s: no value can stand here, it is the same for all", e.name)
		return "", false
	}
	return text, ok
}

func (r *reader) constantTexts(e entry) []string {
	if e.value.Kind != yaml.SequenceNode {
		r.wrongType(e, "a list of texts")
		return nil
	}
	var all []string
	for _, n := range e.value.Content {
		if text, ok := r.constantText(e.with(n)); ok {
			all = append(all, text)
		}
	}
	return all
}

// permissions reads permissions in octal, in quotes or not.
func (r *reader) permissions(e entry) (int, bool) {
	const least, all = 0o10, 0o777
	n, err := strconv.ParseInt(e.value.Value, 8, 32)
	if e.value.Kind != yaml.ScalarNode || err != nil || n < least || n > all || len(e.value.Value) < 3 {
		r.wrongType(e, `permissions in octal, as in "0644"`)
		return 0, false
	}
	return int(n), true
}

// parallelTrue is what `parallel: true` stands for.
const parallelTrue = 10

func (r *reader) foreach(e entry) *Foreach {
	f := new(Foreach)
	keys := r.fields(f)
	keys = withReader(keys, "input", func(e entry) { set(&f.Input)(r.elements(e)) })
	keys = withReader(keys, "as", func(e entry) { set(&f.As)(r.elementName(e)) })
	keys = withReader(keys, "parallel", func(e entry) { set(&f.Parallel)(r.parallel(e)) })
	keys = withReader(keys, "max_items", func(e entry) { setPointer(&f.MaxItems)(r.atLeast(e, 0)) })
	if b := r.block("foreach", e, keys); b != nil {
		r.require(b, "input")
		r.require(b, "do")
	}
	return f
}

// elements reads a list, or a command.
func (r *reader) elements(e entry) (Elements, bool) {
	if e.value.Kind != yaml.SequenceNode {
		text, ok := r.textWithPos(e)
		return Elements{Command: &text}, ok
	}
	all := make([]Element, 0, len(e.value.Content))
	for _, n := range e.value.Content {
		n = resolveAlias(n)
		if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
			text := r.withPos(n, n.Value)
			all = append(all, Element{Text: &text})
			continue
		}
		all = append(all, Element{JSON: r.json(nil, n)})
	}
	return Elements{List: all}, true
}

// elementName reads a name for the element. It may be item, which hides the item of the agent.
func (r *reader) elementName(e entry) (string, bool) {
	name, ok := r.text(e)
	switch {
	case !ok:
	case name == "index", name == "total":
		r.fail(e.value, "%s: %q is a name that every foreach has: choose another", e.name, name)
	case name != "item":
		r.checkName(e, name, posix.IsName, "letters, digits and underscores")
	}
	return name, ok
}

// parallel reads a number, or true for parallelTrue.
func (r *reader) parallel(e entry) (int, bool) {
	if e.value.Kind != yaml.ScalarNode || e.value.Tag != "!!bool" {
		return r.atLeast(e, 1)
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

// validate reads a validation: a list of steps, a mapping with commands or only a result_file, or one step whose mapping also has the keys
// of the validation.
// retry_defaults do not apply to its steps: an incomplete result is not a failure to retry.
func (r *reader) validate(e entry) *Validate {
	defaults := r.defaults
	r.defaults = nil
	defer func() { r.defaults = defaults }()
	v := &Validate{Threshold: allComplete}
	keys := r.fields(v)
	keys = withReader(keys, "threshold", func(e entry) { set(&v.Threshold)(r.percentage(e)) })
	keys = withReader(keys, "on_incomplete", func(e entry) { v.OnIncomplete = r.onIncomplete(e, defaults) })
	switch {
	case e.value.Kind == yaml.SequenceNode:
		v.Commands = r.steps(e)
	case e.value.Kind != yaml.MappingNode:
		r.wrongType(e, "a step or a list of steps")
	case find(e.value, "commands") != nil, r.onlyReads(e, keys):
		r.block("validate", e, keys)
	default:
		s, _ := r.step(e, withoutKeys(keys, "commands", "timeout"))
		v.Commands = []Step{s}
	}
	return v
}

// onlyReads reports whether a validation only reads a result_file, which the step itself has written.
func (r *reader) onlyReads(e entry, keys []key) bool {
	for _, written := range r.entries(e.value) {
		if !slices.ContainsFunc(keys, func(k key) bool { return k.name == written.name }) {
			return false
		}
	}
	return find(e.value, "result_file") != nil
}

func (r *reader) percentage(e entry) (float64, bool) {
	f, ok := r.number(e)
	if ok && (f < 0 || f > allComplete) {
		r.fail(e.value, "%s must be from 0 to 100, not %v", e.name, f)
		return 0, false
	}
	return f, ok
}

// onIncomplete reads the steps as those of a failure handler. retry_defaults apply to them.
func (r *reader) onIncomplete(e entry, defaults *positionedPolicy) *OnIncomplete {
	before := r.defaults
	r.defaults = defaults
	defer func() { r.defaults = before }()
	on := &OnIncomplete{MaxAttempts: completionAttempts, FailWorkflow: true}
	keys := r.fields(on)
	keys = withReader(keys, "max_attempts", func(e entry) { set(&on.MaxAttempts)(r.atLeast(e, 1)) })
	on.Steps = r.handlerSteps(e, keys)
	return on
}
