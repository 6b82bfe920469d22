package workflow

import (
	"reflect"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"prodigy/internal/check"
	"prodigy/internal/retry"
)

// steps reads a list of at least one step. It reports duplicate ids.
func (r *reader) steps(e entry) []Step {
	if e.value.Kind != yaml.SequenceNode {
		r.wrongType(e, "a list of steps")
		return nil
	}
	if len(e.value.Content) == 0 {
		r.fail(e.value, "%s has no steps", e.name)
	}
	var steps []Step
	ids := map[string]*yaml.Node{}
	for _, n := range e.value.Content {
		s, b := r.step(entry{name: "step", value: resolveAlias(n)}, nil)
		if b == nil {
			continue
		}
		if first := ids[s.ID]; first != nil {
			r.fail(b.at("id"), "id %q is already used on line %d", s.ID, first.Line)
		} else if s.ID != "" {
			ids[s.ID] = b.at("id")
		}
		steps = append(steps, s)
	}
	return steps
}

// deferredKeys are keys of a step that are read after all others, because they depend on those.
type deferredKeys struct {
	retry, with, onFailure, captureOutput *entry
}

// step reads one step. more are keys that its mapping may have besides those of a step. The block is nil if
// the value is no mapping.
func (r *reader) step(e entry, more keySet) (Step, *block) {
	r.depth++
	defer func() { r.depth-- }()
	s := Step{Pos: posOf(e.value)}
	var p deferredKeys
	keep := func(at **entry) func(entry) { return func(e entry) { *at = &e } }
	keys := r.fields(&s)
	keys.read("env", func(e entry) { s.Env = r.stepEnv(e) })
	keys.read("retry_config", keep(&p.retry))
	keys.read("with", keep(&p.with))
	keys.read("on_failure", keep(&p.onFailure))
	keys.read("capture_output", keep(&p.captureOutput))
	keys.read("test", func(e entry) { r.test(e, &s) })
	keys.read("on_success", func(e entry) { s.OnSuccess = r.hookSteps(e) })
	if e.value.Tag == "!!str" {
		r.fail(e.value, `%s must be a mapping, got %s (as in "shell: …")`, e.name, describe(e.value))
		return s, nil
	}
	if e.name == "step" {
		keys = append(keys, key{name: "fail_workflow", read: func(e entry) {
			r.warn(e.key,
				`"fail_workflow" is deprecated: use "allow_failure: true" for false, and remove it for true`)
			if fails, ok := r.boolean(e); ok {
				s.AllowFailure = !fails
			}
		}})
	}
	b := r.block(e.name, e, append(keys, more...))
	if b == nil {
		return s, nil
	}
	r.refuse(b, "fail_workflow", b.has("allow_failure"),
		`"allow_failure" and "fail_workflow" cannot be used together: keep "allow_failure"`)
	r.refuse(b, "rate", s.Rate != nil && !(r.inTemplate && r.depth == 1),
		`"rate" is only for the steps of agent_template, not for nested steps`)
	r.checkKind(b)
	r.retryOf(&s, b, p)
	if p.onFailure != nil && s.OnFailure != nil {
		r.fail(p.onFailure.key, `"on_failure" is set twice: in "test" and in the step`)
	} else if p.onFailure != nil {
		r.onFailure(&s, p)
	}
	if s.AllowFailure && b.has("allow_failure") && s.Retry != nil && s.Retry.OnFailure.Kind != retry.Continue {
		own := p.onFailure != nil && s.OnFailure == nil
		if own || p.retry != nil && find(p.retry.value, "on_failure") != nil {
			r.fail(b.at("allow_failure"), `"allow_failure" cannot be used with the on_failure action %q`,
				s.Retry.OnFailure.Kind)
		}
	}
	if p.captureOutput != nil {
		r.captureOutput(&s, b, *p.captureOutput)
	}
	r.refuse(b, "capture_format", s.Capture == "" && !b.has("capture") && !b.has("capture_output"),
		`"capture_format" requires "capture"`)
	r.refuse(b, "interpreter", s.Shell == nil && !b.has("shell"), `"interpreter" is only for shell steps`)
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
			r.fail(b.written[name].key, "%s has both %q and %q: split it into two steps", b.name, first, name)
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

// captureOutput reads capture_output: a name, or true for the name in id. Without an id, true changes
// nothing: the output is always available as shell.output.
func (r *reader) captureOutput(s *Step, b *block, e entry) {
	if b.has("capture") {
		r.fail(e.key, `"capture" and "capture_output" are aliases; use one`)
		return
	}
	if !hasTag(e.value, "!!bool") {
		into(&s.Capture, func(e entry) (string, bool) { return r.string(e, "name") })(e)
		return
	}
	capture, _ := r.boolean(e)
	switch {
	case !capture:
	case b.has("id"):
		s.Capture = s.ID
	case b.has("capture_format"):
		r.fail(e.value, `capture_output: true requires an "id" in the step to name the output; or use a name instead of true`)
	}
}

// read reads the name of a known program, or a list of the arguments that precede the script.
func (i *Interpreter) read(r *reader, e entry) bool {
	if e.value.Kind == yaml.SequenceNode {
		// A list of at least one argument. They cannot hold placeholders.
		for _, n := range e.value.Content {
			word, ok := r.text(e.with(n))
			if !ok || !r.constant(e.with(n), word) {
				return false
			}
			*i = append(*i, word)
		}
		switch argv := *i; {
		case argv == nil:
			return r.fail(e.value, "%s is empty", e.name)
		case strings.TrimSpace(argv[0]) == "":
			return r.fail(e.value, "%s: the program name is empty", e.name)
		}
		return true
	}
	program, ok := r.string(e, "constant")
	if !ok {
		return false
	}
	flag := scriptFlag(program)
	if flag == "" {
		return r.fail(e.value,
			"interpreter: unknown program %q: list the program and its options, as in [bash, -eu, -c]", program)
	}
	*i = Interpreter{program, flag}
	return true
}

// constant reports a placeholder in a text that must be the same for all items.
func (r *reader) constant(e entry, text string) bool {
	if strings.Contains(text, "${") {
		return r.fail(e.value, "%s must be constant; placeholders are not allowed here", e.name)
	}
	return true
}

// onFailure reads on_failure of a step: a handler, or a failure action as in retry_config.
func (r *reader) onFailure(s *Step, p deferredKeys) {
	e := *p.onFailure
	if isNull(e.value) || e.value.Kind != yaml.ScalarNode && find(e.value, "fallback") == nil {
		s.OnFailure = r.handler(e)
		return
	}
	if text := e.value.Value; (e.value.ShortTag() == "!!str" || e.value.ShortTag() == "!!bool") &&
		check.Nearest(text, []string{string(retry.Stop), string(retry.Continue)}) == "" {
		r.fail(e.value, `unknown on_failure %q (want stop, continue or {fallback: {command: "…"}}; for a handler use a step, {shell: "…"})`, text)
		return
	}
	action, ok := r.failureAction(e)
	if !ok {
		return
	}
	if p.retry != nil && find(p.retry.value, "on_failure") != nil {
		r.fail(e.key, `"on_failure" is already set in retry_config`)
		return
	}
	if s.Retry == nil {
		once := r.basePolicy()
		once.Attempts = 1
		s.Retry = &once
	}
	s.Retry.OnFailure = action
}

// handler reads a failure handler.
func (r *reader) handler(e entry) *OnFailure {
	var h OnFailure
	h.Steps = r.stepsOf(e, "a step, a list of steps or a failure action", e.name, r.fields(&h))
	return &h
}

// hookSteps reads steps that run after another one: a list, a mapping with commands, or one step.
func (r *reader) hookSteps(e entry) []Step {
	return r.stepsOf(e, "a step or a list of steps", "step", nil)
}

// stepsOf reads steps in one of their forms, which messages call want. One step alone has a name, and perhaps
// more keys.
func (r *reader) stepsOf(e entry, want, name string, more keySet) (steps []Step) {
	switch {
	case e.value.Kind == yaml.SequenceNode:
		return r.steps(e)
	case e.value.Kind != yaml.MappingNode:
		r.wrongType(e, want)
		return nil
	case find(e.value, "commands") != nil:
		more.read("commands", func(e entry) { steps = r.steps(e) })
		r.block(e.name+` with "commands"`, e, more)
		return steps
	}
	s, _ := r.step(entry{name: name, key: e.key, value: e.value}, more)
	return []Step{s}
}

// read reads on_exit_code.
func (all *ExitSteps) read(r *reader, e entry) bool {
	if e.value.Kind != yaml.MappingNode {
		return r.wrongType(e, "a mapping of exit codes to steps")
	}
	*all = ExitSteps{}
	for _, c := range r.entries(e.value) {
		code, err := strconv.Atoi(c.name)
		if err != nil || code < 0 || code > maxExitCode || strconv.Itoa(code) != c.name {
			r.fail(c.key, "unknown key %q in on_exit_code (want an exit code, from 0 to %d)", c.name, maxExitCode)
			continue
		}
		c.name = "on_exit_code " + c.name
		(*all)[code] = r.hookSteps(c)
	}
	return true
}

const maxExitCode = 255

// retryOf sets the retry policy of a step from its retry_config or with, and retry_defaults.
func (r *reader) retryOf(s *Step, b *block, p deferredKeys) {
	if p.with != nil && p.retry != nil {
		r.fail(p.with.key, `"with" and %q cannot be used together`, p.retry.name)
	}
	if p.with != nil {
		r.callOptions(s, b, *p.with)
	}
	switch {
	case p.retry != nil:
		if own := r.stepDefaults(); r.retryBlock(*p.retry, &own, nil) {
			s.Retry = &own.policy
		}
	case p.with == nil && r.defaults != nil && s.IsCommand():
		own := r.stepDefaults()
		s.Retry = &own.policy
	}
}

// test reads a test step, the older way to write a shell step with a handler.
func (r *reader) test(e entry, s *Step) {
	s.Test = true
	command := key{name: "command", read: func(e entry) { r.value(e, reflect.ValueOf(&s.Shell).Elem(), "") }}
	r.warn(e.key, `"test" is deprecated: use "shell" with "on_failure"`)
	if e.value.Kind != yaml.MappingNode {
		command.read(e)
		return
	}
	onFailure := key{name: "on_failure", read: func(e entry) {
		s.OnFailure = r.handler(e)
		if s.OnFailure.MaxAttempts == 0 {
			s.OnFailure.MaxAttempts = testAttempts
		}
	}}
	if b := r.block("test", e, keySet{command, onFailure}); b != nil {
		r.require(b, "command")
	}
}

const testAttempts = 3
