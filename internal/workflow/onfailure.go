package workflow

import (
	"gopkg.in/yaml.v3"

	"prodigy/internal/retry"
)

// onFailure reads on_failure of a step: a handler, or a failure action that could as well stand in its retry_config.
func (r *reader) onFailure(s *Step, b *block, p parts) {
	e := *p.onFailure
	if !isAction(e.value) {
		s.OnFailure = r.handler(e)
		return
	}
	action, ok := r.failureAction(e)
	if !ok {
		return
	}
	if p.retry != nil && find(p.retry.value, "on_failure") != nil {
		r.fail(e.key, `the failure action is in retry_config already: write "on_failure" in one place`)
		return
	}
	if s.Retry == nil {
		once := r.basePolicy()
		once.Attempts = 1
		s.Retry = &once
	}
	s.Retry.OnFailure = action
}

// isAction tells whether the value of on_failure is a failure action and not a handler.
func isAction(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && !isNull(n) || find(n, "fallback") != nil
}

// handler reads a failure handler.
func (r *reader) handler(e entry) *OnFailure {
	var h OnFailure
	keys := r.fields(&h)
	keys = reading(keys, "max_attempts", func(e entry) { set(&h.MaxAttempts)(r.atLeast(e, 1)) })
	h.Steps = r.handlerSteps(e, keys)
	return &h
}

// handlerSteps reads steps that are there for when something is amiss: a list of steps; a mapping with commands; or a step, whose
// mapping may hold these keys as well.
func (r *reader) handlerSteps(e entry, keys []key) (steps []Step) {
	switch {
	case e.value.Kind == yaml.SequenceNode:
		return r.steps(e)
	case e.value.Kind != yaml.MappingNode && e.name == "on_incomplete":
		r.wrong(e, "a step or a list of steps")
		return nil
	case e.value.Kind != yaml.MappingNode:
		r.wrong(e, "a step, a list of steps or a failure action")
		return nil
	case find(e.value, "commands") != nil:
		keys = reading(keys, "commands", func(e entry) { steps = r.steps(e) })
		r.block(e.name+` with "commands"`, e, keys)
		return steps
	}
	s, _ := r.step(e, keys)
	return []Step{s}
}

// failureAction reads what follows when the attempts are used up: stop, continue, or {fallback: {command: …}}.
func (r *reader) failureAction(e entry) (retry.FailureAction, bool) {
	var a retry.FailureAction
	if e.value.Kind != yaml.MappingNode {
		var ok bool
		a.Kind, ok = word(r, e, retry.Stop, retry.Continue, `{fallback: {command: "…"}}`)
		return a, ok
	}
	fallback := func(e entry) {
		command := key{name: "command", read: func(e entry) { set(&a.Command)(r.filled(e)) }}
		if b := r.block("fallback", e, []key{command}); b != nil {
			r.require(b, "command")
		}
	}
	if b := r.block(e.name, e, []key{{name: "fallback", read: fallback}}); b != nil {
		r.require(b, "fallback")
	}
	a.Kind = retry.Fallback
	return a, a.Command != ""
}

// find returns the value of a key of mapping n, also of one merged in, or nil.
func find(n *yaml.Node, name string) *yaml.Node {
	quiet := &reader{}
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for _, e := range quiet.entries(n) {
		if e.name == name {
			return e.value
		}
	}
	return nil
}
