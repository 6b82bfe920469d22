package workflow

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"prodigy/internal/check"
	"prodigy/internal/shell"
)

// envForm is the long form of a variable's value.
type envForm struct {
	Value *Text `yaml:"value" text:"any" required:"one"` // the value, if there are other keys

	// whether the value is masked in everything that prodigy writes or prints, and never stored; default false
	Secret bool `yaml:"secret"`

	Command *Text `yaml:"command" required:"one"` // shell command whose output is the value

	// whether to run the command only once, before anything else; default once for each item, and for each
	// other phase
	Cache bool `yaml:"cache"`

	// condition over variables and parameters, in the filter language
	Condition *Text `yaml:"condition" required:"one"`

	WhenTrue  *Text `yaml:"when_true" text:"any"`  // the value if the condition is true
	WhenFalse *Text `yaml:"when_false" text:"any"` // the value if it is false
}

// stepEnv reads the variables of a step. It refuses the forms that are evaluated once, before the job begins.
func (r *reader) stepEnv(e entry) []EnvVar {
	vars := r.variables(r.namedEntries(e))
	for _, v := range vars {
		if v.Choice != nil || v.Cache || v.Secret {
			r.fail(e.key, "env value %s: cache, condition and secret are only for the workflow's env, not a step's", v.Name)
		}
	}
	return vars
}

const (
	notAVariable = "invalid variable name %q: use letters, digits and underscores"
	notAProfile  = "invalid profile name %q: use letters, digits, underscores and dashes, not starting with a digit"
)

func (r *reader) variables(entries []entry) []EnvVar {
	var vars []EnvVar
	for _, v := range entries {
		if !shell.IsName(v.name) {
			r.fail(v.key, notAVariable, v.name)
		}
		if one, ok := r.variable(v); ok {
			vars = append(vars, one)
		}
	}
	return vars
}

// variable reads a value, or a mapping with a value, a command or a choice.
func (r *reader) variable(e entry) (EnvVar, bool) {
	if e.value.Kind != yaml.MappingNode || len(e.value.Content) == 0 {
		s, ok := r.text(e)
		return EnvVar{Name: e.name, Value: r.withPos(e.value, s)}, ok
	}
	var form envForm
	before := len(r.problems)
	b := r.readWith(entry{name: "env value", value: e.value}, &form, r.fields(&form))
	if b.has("condition") {
		r.require(b, "when_true")
		r.require(b, "when_false")
	}
	forms := []string{"value", "command", "condition"}
	at := slices.IndexFunc(forms, b.has)
	for name, with := range map[string]string{
		"secret": "value command", "cache": "command", "when_true": "condition", "when_false": "condition",
	} {
		if at >= 0 && b.has(name) && !check.Among(with, forms[at]) {
			r.fail(b.written[name].key, "%q and %q cannot be used together in an env value", name, forms[at])
		}
	}
	if len(r.problems) > before {
		return EnvVar{}, false
	}
	v := EnvVar{Name: e.name, Command: form.Command, Cache: form.Cache, Secret: form.Secret}
	switch {
	case form.Condition != nil:
		v.Choice = &EnvChoice{
			Condition: form.Condition.Value, ConditionPos: form.Condition.At(1, 1), WhenTrue: *form.WhenTrue,
			WhenFalse: *form.WhenFalse,
		}
	case form.Value != nil:
		v.Value = *form.Value
	}
	if v.Secret && v.Command == nil {
		r.checkSecretValue(b)
	}
	return v, true
}

// profile reads the variables of one profile. Its key description is not a variable.
func (r *reader) profile(e entry) Profile {
	p := Profile{Name: e.name, Pos: posOf(e.value)}
	if isNull(e.value) {
		return p
	}
	if e.value.Kind != yaml.MappingNode {
		r.wrongType(e, "a mapping of variables")
		return p
	}
	entries := r.entries(e.value)
	if i := slices.IndexFunc(entries, func(e entry) bool { return e.name == "description" }); i >= 0 {
		into(&p.Description, r.text)(entries[i])
		entries = slices.Delete(entries, i, i+1)
	}
	p.Env = r.variables(entries)
	return p
}

// environmentName matches the forms in which a secret names an environment variable: NAME, $NAME, ${NAME}, ${env:NAME}.
var environmentName = check.Regexp(`^(?:\$\{env[:.]([A-Za-z_]\w*)\}|\$\{([A-Za-z_]\w*)\}|\$?([A-Za-z_]\w*))$`)

func (r *reader) secret(e entry) Secret {
	s := Secret{Name: e.name, Pos: posOf(e.value)}
	if e.value.Kind == yaml.MappingNode {
		r.read(entry{name: "secret", value: e.value}, &s)
		return s
	}
	var found []string
	if hasTag(e.value, "!!str") {
		found = environmentName().FindStringSubmatch(e.value.Value)
	}
	if found == nil { // the value is not told: it may be a secret
		r.fail(e.value, `%s must be the name of an environment variable, {file: …} or {command: …}, not a value`, e.name)
		return s
	}
	s.Env = strings.Join(found[1:], "")
	return s
}

// checkSecretValue reports a secret value that Redact could not find in the file. A copy of the file is kept
// with the job.
func (r *reader) checkSecretValue(b *block) {
	n := b.at("value")
	t := r.withPos(n, n.Value)
	line := []rune(r.line(t.Pos.Line - 1))
	start := min(max(t.Pos.Col-1, 0), len(line))
	if len(line) > 0 && (t.Block || !strings.HasPrefix(string(line[start:]), n.Value)) {
		r.fail(n, "a secret value must be on one line without escapes; use single quotes, or a file or variable under secrets")
	}
}
