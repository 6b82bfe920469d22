package workflow

import (
	"iter"
	"maps"
	"slices"
	"strconv"

	"gopkg.in/yaml.v3"
)

// ExitSteps are the steps of on_exit_code, by exit code.
type ExitSteps map[int][]Step

// Following yields the lists of steps that are part of s or may follow it, in the order in which people read them, each with its key, as in
// "on_exit_code 101".
func (s Step) Following() iter.Seq2[string, []Step] {
	return func(yield func(string, []Step) bool) {
		if s.Foreach != nil && !yield("do", s.Foreach.Do) {
			return
		}
		if v := s.Validate; v != nil {
			if !yield("validate", v.Commands) || v.OnIncomplete != nil && !yield("on_incomplete", v.OnIncomplete.Steps) {
				return
			}
		}
		if len(s.OnSuccess) > 0 && !yield("on_success", s.OnSuccess) {
			return
		}
		for _, code := range slices.Sorted(maps.Keys(s.OnExitCode)) {
			if !yield("on_exit_code "+strconv.Itoa(code), s.OnExitCode[code]) {
				return
			}
		}
		if s.OnFailure != nil {
			yield("on_failure", s.OnFailure.Steps)
		}
	}
}

// IsPart tells whether the steps under a key that Following yields are part of each try of the step, and do not follow it.
func IsPart(key string) bool { return key == "do" || key == "validate" || key == "on_incomplete" }

// LabelPrefix returns what the labels of the steps begin with that stand under a key of the step with this label.
func LabelPrefix(label, key string) string {
	if key == "validate" || key == "on_incomplete" {
		return label + "/" + key + "/"
	}
	return label + "/"
}

// following reads steps that follow another one: a list, a mapping with commands, or one step.
func (r *reader) following(e entry) []Step {
	switch {
	case e.value.Kind == yaml.SequenceNode:
		return r.steps(e)
	case e.value.Kind != yaml.MappingNode:
		r.wrong(e, "a step or a list of steps")
		return nil
	case find(e.value, "commands") != nil:
		var steps []Step
		commands := key{name: "commands", read: func(e entry) { steps = r.steps(e) }}
		r.block(e.name+` with "commands"`, e, []key{commands})
		return steps
	}
	s, _ := r.step(entry{name: "step", key: e.key, value: e.value}, nil)
	return []Step{s}
}

// exitSteps reads on_exit_code.
func (r *reader) exitSteps(e entry) ExitSteps {
	if e.value.Kind != yaml.MappingNode {
		r.wrong(e, "a mapping of exit codes to steps")
		return nil
	}
	all := ExitSteps{}
	for _, c := range r.entries(e.value) {
		code, err := strconv.Atoi(c.name)
		if err != nil || code < 0 || code > maxExitCode || strconv.Itoa(code) != c.name {
			r.fail(c.key, "unknown key %q in on_exit_code (want an exit code, from 0 to %d)", c.name, maxExitCode)
			continue
		}
		c.name = "on_exit_code " + c.name
		all[code] = r.following(c)
	}
	return all
}

const maxExitCode = 255
