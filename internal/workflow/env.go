package workflow

import (
	"slices"

	"gopkg.in/yaml.v3"
)

// EnvVar is one variable of an env block. Its value is Value, unless Command or Choice is set.
type EnvVar struct {
	Name    string     `json:"name"`
	Value   Text       `json:"value"`
	Literal bool       `json:"literal,omitempty"` // Value stands for itself: what looks like a placeholder in it is none
	Command *Text      `json:"command,omitempty"` // its output is the value
	Cache   bool       `json:"cache,omitempty"`   // Command is run once for the job, before anything else; else once for each attempt
	Choice  *EnvChoice `json:"choice,omitempty"`
	Secret  bool       `json:"secret,omitempty"` // the value is masked wherever it would be written, and never stored
}

// EnvChoice is a value that a condition decides on, once for the job.
type EnvChoice struct {
	Condition    string `json:"condition"`
	ConditionPos Pos    `json:"condition_pos"`
	WhenTrue     Text   `json:"when_true"`
	WhenFalse    Text   `json:"when_false"`
}

// At returns where the value is written.
func (v EnvVar) At() Pos {
	switch {
	case v.Command != nil:
		return v.Command.At(1, 1)
	case v.Choice != nil:
		return v.Choice.ConditionPos
	}
	return v.Value.At(1, 1)
}

// envForm is the long form of a variable's value.
type envForm struct {
	Value     *Text  `yaml:"value"`      // the value, when there is more to say of it
	Secret    bool   `yaml:"secret"`     // the value is masked wherever prodigy writes or prints, and never stored; default false
	Command   *Text  `yaml:"command"`    // a shell command whose output is the value
	Cache     bool   `yaml:"cache"`      // run the command once, before anything else; default once for each agent, and for each of the other phases
	Condition string `yaml:"condition"`  // an expression over variables and parameters, in the language of filters
	WhenTrue  *Text  `yaml:"when_true"`  // the value when the condition holds
	WhenFalse *Text  `yaml:"when_false"` // the value when it does not
}

// Profile is a set of variables that a run can choose by name. They go before those of env.
type Profile struct {
	Name        string
	Description string
	Env         []EnvVar
	Pos         Pos
}

// stepEnv reads the variables of a step, which have no forms that are decided before the job begins.
func (r *reader) stepEnv(e entry) []EnvVar {
	vars := r.env(e)
	for _, v := range vars {
		if v.Choice != nil || v.Cache || v.Secret {
			r.fail(e.key, "env value %s: cache, condition and secret are for the env of the workflow, not of a step", v.Name)
		}
	}
	return vars
}

// env reads a block of variables, in the order of the file.
func (r *reader) env(e entry) []EnvVar {
	return r.variables(r.members(e))
}

func (r *reader) variables(entries []entry) []EnvVar {
	var vars []EnvVar
	for _, v := range entries {
		if !isName(v.name) {
			r.fail(v.key, "%q cannot be the name of a variable: use letters, digits and underscores", v.name)
		}
		if one, ok := r.variable(v); ok {
			vars = append(vars, one)
		}
	}
	return vars
}

func (r *reader) variable(e entry) (EnvVar, bool) {
	if e.value.Kind == yaml.MappingNode && len(e.value.Content) > 0 {
		return r.longVariable(e)
	}
	s, ok := r.text(e)
	return EnvVar{Name: e.name, Value: r.locate(e.value, s)}, ok
}

// longVariable reads the mapping form: a value, a command, or a choice.
func (r *reader) longVariable(e entry) (EnvVar, bool) {
	var form envForm
	before := len(r.problems)
	keys := r.fields(&form)
	for name, target := range map[string]**Text{"value": &form.Value, "when_true": &form.WhenTrue, "when_false": &form.WhenFalse} {
		keys = reading(keys, name, func(e entry) { setPointer(target)(r.anyText(e)) })
	}
	var at Pos
	keys = reading(keys, "condition", func(e entry) { form.Condition, at = r.expression(e, r.filled) })
	b := r.block("env value", e, keys)
	r.checkForm(b)
	if len(r.problems) > before {
		return EnvVar{}, false
	}
	v := EnvVar{Name: e.name, Command: form.Command, Cache: form.Cache, Secret: form.Secret}
	switch {
	case form.Condition != "":
		v.Choice = &EnvChoice{Condition: form.Condition, ConditionPos: at, WhenTrue: *form.WhenTrue, WhenFalse: *form.WhenFalse}
	case form.Value != nil:
		v.Value = *form.Value
	}
	if v.Secret && v.Command == nil {
		r.checkSecretValue(b)
	}
	return v, true
}

// checkForm reports keys that do not go together.
func (r *reader) checkForm(b *block) {
	r.require(b, "value", "command", "condition")
	together := map[string][]string{
		"value": {"secret"}, "command": {"cache", "secret"}, "condition": {"when_true", "when_false"},
	}
	first := ""
	for _, name := range []string{"value", "command", "condition"} {
		switch {
		case !b.has(name):
		case first != "":
			r.fail(b.written[name].key, "env value has both %q and %q: write one of them", first, name)
		default:
			first = name
		}
	}
	if first == "" {
		return
	}
	if first == "condition" {
		r.require(b, "when_true")
		r.require(b, "when_false")
	}
	for _, name := range []string{"secret", "cache", "when_true", "when_false"} {
		if b.has(name) && !slices.Contains(together[first], name) {
			r.fail(b.written[name].key, "%q does not go with %q in an env value", name, first)
		}
	}
}

// profiles reads the profiles by name.
func (r *reader) profiles(e entry) []Profile {
	var all []Profile
	for _, p := range r.members(e) {
		if !isLabel(p.name) {
			r.fail(p.key, "%q cannot be the name of a profile: use letters, digits, underscores and dashes, and no digit first", p.name)
		}
		all = append(all, r.profile(p))
	}
	return all
}

// profile reads the variables of one profile, among which description says what it is for.
func (r *reader) profile(e entry) Profile {
	p := Profile{Name: e.name, Pos: place(e.value)}
	if isNull(e.value) {
		return p
	}
	if e.value.Kind != yaml.MappingNode {
		r.wrong(e, "a mapping of variables")
		return p
	}
	entries := r.entries(e.value)
	if i := slices.IndexFunc(entries, func(e entry) bool { return e.name == "description" }); i >= 0 {
		set(&p.Description)(r.text(entries[i]))
		entries = slices.Delete(entries, i, i+1)
	}
	p.Env = r.variables(entries)
	return p
}

// names reads a list of texts that are not blank, or a single one.
func (r *reader) names(e entry) []Text {
	if e.value.Kind != yaml.SequenceNode {
		if t, ok := r.located(e); ok {
			return []Text{t}
		}
		return nil
	}
	var all []Text
	for _, n := range e.value.Content {
		if t, ok := r.located(e.with(n)); ok {
			all = append(all, t)
		}
	}
	return all
}
