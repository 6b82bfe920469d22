package workflow

import (
	"slices"

	"gopkg.in/yaml.v3"

	"prodigy/internal/retry"
)

// steps reads a list of steps, at least one, whose ids differ.
func (r *reader) steps(e entry) []Step {
	if e.value.Kind != yaml.SequenceNode {
		r.wrong(e, "a list of steps")
		return nil
	}
	if len(e.value.Content) == 0 {
		r.fail(e.value, "%s has no steps", e.name)
	}
	var steps []Step
	ids := map[string]*yaml.Node{}
	for _, n := range e.value.Content {
		s, b := r.step(entry{name: "step", value: follow(n)}, nil)
		if b == nil {
			continue
		}
		if first := ids[s.ID]; first != nil {
			r.fail(b.at("id"), "id %q is taken already, in line %d", s.ID, first.Line)
		} else if s.ID != "" {
			ids[s.ID] = b.at("id")
		}
		steps = append(steps, s)
	}
	return steps
}

// parts are what a step is written with that is put together after all of its keys are known.
type parts struct {
	retry, with, onFailure, captureOutput *entry
}

// step reads one step. more are keys that its mapping may hold as well. The block is nil when there is no mapping.
func (r *reader) step(e entry, more []key) (Step, *block) {
	s := Step{Pos: place(e.value)}
	var p parts
	keep := func(at **entry) func(entry) { return func(e entry) { *at = &e } }
	keys := r.fields(&s)
	keys = reading(keys, "env", func(e entry) { s.Env = r.stepEnv(e) })
	keys = reading(keys, "retry_config", keep(&p.retry))
	keys = reading(keys, "with", keep(&p.with))
	keys = reading(keys, "on_failure", keep(&p.onFailure))
	keys = reading(keys, "capture_output", keep(&p.captureOutput))
	keys = reading(keys, "test", func(e entry) { r.test(e, &s) })
	keys = reading(keys, "on_success", func(e entry) { s.OnSuccess = r.following(e) })
	if e.value.Tag == "!!str" {
		r.fail(e.value, "%s: want a mapping, got %s (a command is written \"shell: …\")", e.name, describe(e.value))
		return s, nil
	}
	b := r.block(e.name, e, append(keys, more...))
	if b == nil {
		return s, nil
	}
	r.checkKind(b)
	r.retryOf(&s, b, p)
	r.warnOfMatchers(s, p)
	if p.onFailure != nil && s.OnFailure != nil {
		r.fail(p.onFailure.key, `"on_failure" is written twice: in "test" and in the step`)
	} else if p.onFailure != nil {
		r.onFailure(&s, b, p)
	}
	if action, contradicts := allowedAction(s, b, p); contradicts {
		r.fail(b.at("allow_failure"), `"allow_failure" contradicts the on_failure action %q`, action)
	}
	r.checkNames(&s, b, p)
	r.checkOutput(s, b)
	if s.Kind() == "" {
		s.Shell = &Text{Value: ":", Pos: s.Pos} // which was told; the rest of the step is looked at all the same
	}
	return s, b
}

// checkKind reports a step that has no command key, or several.
func (r *reader) checkKind(b *block) {
	var first string
	for _, name := range append(Kinds(), "test") {
		switch {
		case !b.has(name), name == "validate" && first != "":
		case first != "" && first != "validate":
			r.fail(b.written[name].key, "%s has both %q and %q: make two steps of it", b.name, first, name)
		default:
			first = name
		}
	}
	if first != "" {
		return
	}
	words := Kinds()
	if b.name != "step" { // a handler or a validation, which may be a list too
		words = append(words, "commands")
	}
	r.require(b, words...)
}

// checkNames checks id and capture, and fills in what capture_output says.
func (r *reader) checkNames(s *Step, b *block, p parts) {
	if p.captureOutput != nil {
		r.captureOutput(s, b, *p.captureOutput)
	}
	if b.has("id") {
		r.checkName(b.written["id"], s.ID, isLabel, "letters, digits, underscores and dashes")
	}
	if b.has("capture") {
		r.checkName(b.written["capture"], s.Capture, isName, "letters, digits and underscores")
	}
}

// checkName checks a name that step texts can use.
func (r *reader) checkName(e entry, name string, ok func(string) bool, of string) {
	switch {
	case e.value.Kind != yaml.ScalarNode || isNull(e.value):
	case e.value.Tag == "!!bool", !ok(name):
		r.fail(e.value, "%s: %q is not a name: use %s, and no digit first", e.name, e.value.Value, of)
	case slices.Contains(BuiltinNames(), name):
		r.fail(e.value, "%s: %q is a name of prodigy's own: choose another", e.name, name)
	}
}

// captureOutput reads capture_output: a name, or true for the name in id. Without an id, true says what is so anyway: the output is
// kept as shell.output.
func (r *reader) captureOutput(s *Step, b *block, e entry) {
	if b.has("capture") {
		r.fail(e.key, `"capture" and "capture_output" are the same: write one of them`)
		return
	}
	if e.value.Kind != yaml.ScalarNode || e.value.Tag != "!!bool" {
		if name, ok := r.text(e); ok {
			s.Capture = name
			r.checkName(e, name, isName, "letters, digits and underscores")
		}
		return
	}
	capture, _ := r.truth(e)
	switch {
	case !capture:
	case b.has("id"):
		s.Capture = s.ID
	case b.has("capture_format"):
		r.fail(e.value, `capture_output: true needs an "id" in the step to name the output, or write the name instead`)
	}
}

// allowedAction returns the written failure action that contradicts allow_failure: true, if there is one.
func allowedAction(s Step, b *block, p parts) (retry.ActionKind, bool) {
	if !s.AllowFailure || s.Retry == nil || s.Retry.OnFailure.Kind == retry.Continue {
		return "", false
	}
	own := p.onFailure != nil && s.OnFailure == nil
	inRetry := p.retry != nil && p.retry.value.Kind == yaml.MappingNode && find(p.retry.value, "on_failure") != nil
	return s.Retry.OnFailure.Kind, b.has("allow_failure") && (own || inRetry)
}
