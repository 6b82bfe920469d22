package workflow

import (
	"time"

	"gopkg.in/yaml.v3"
)

// Validate is a validation of the step that it is part of, or a step by itself.
type Validate struct {
	Commands     []Step        `yaml:"commands" json:"commands"`                        // the steps that find out how complete the work is; instead of them the keys of one step
	ResultFile   *Text         `yaml:"result_file" json:"result_file,omitempty"`        // where the result is read from; default the output of the last step
	Threshold    float64       `yaml:"threshold" json:"threshold"`                      // the percentage from which on the work is complete; default 100
	Timeout      time.Duration `yaml:"timeout" json:"timeout,omitempty" unit:"seconds"` // of the steps together; default none
	OnIncomplete *OnIncomplete `yaml:"on_incomplete" json:"on_incomplete,omitempty"`    // what is done about incomplete work, before it is validated again; default nothing
}

// OnIncomplete holds the steps that complete work that a validation found incomplete.
type OnIncomplete struct {
	Steps        []Step `json:"steps"`
	MaxAttempts  int    `yaml:"max_attempts" json:"max_attempts"`   // rounds of these steps and the validation; default 2
	FailWorkflow bool   `yaml:"fail_workflow" json:"fail_workflow"` // whether the step fails when the work is still incomplete; default true
}

const (
	allComplete        = 100
	completionAttempts = 2
)

// validate reads a validation: a list of steps, a mapping with commands, or one step whose mapping also has the keys of the validation.
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
	case find(e.value, "commands") != nil:
		r.block("validate", e, keys)
	default:
		s, _ := r.step(e, withoutKeys(keys, "commands", "timeout"))
		v.Commands = []Step{s}
	}
	return v
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

const testAttempts = 3

// test reads a test step, the older way to write a shell step with a handler.
func (r *reader) test(e entry, s *Step) {
	s.Test = true
	r.warn(e.key, `"test" is the older way to write a step: write "shell" and beside it "on_failure"`)
	if e.value.Kind != yaml.MappingNode {
		setPointer(&s.Shell)(r.textWithPos(e))
		return
	}
	command := key{name: "command", read: func(e entry) { setPointer(&s.Shell)(r.textWithPos(e)) }}
	onFailure := key{name: "on_failure", read: func(e entry) {
		s.OnFailure = r.handler(e)
		if s.OnFailure.MaxAttempts == 0 {
			s.OnFailure.MaxAttempts = testAttempts
		}
	}}
	if b := r.block("test", e, []key{command, onFailure}); b != nil {
		r.require(b, "command")
	}
}
