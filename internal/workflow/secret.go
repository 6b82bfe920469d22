package workflow

import (
	"regexp"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"
)

// Secret is where the value of a secret comes from: exactly one of Env, File and Command is set.
type Secret struct {
	Name    string
	Env     string // the name of an environment variable
	File    *Text  `yaml:"file"`    // a file that holds the secret
	Command *Text  `yaml:"command"` // a shell command that prints the secret
	Pos     Pos
}

// Masked is what stands for a secret wherever it would be written.
const Masked = "***"

// environmentName matches the ways to name a variable of the environment.
var environmentName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:\$\{env[:.]([A-Za-z_]\w*)\}|\$\{([A-Za-z_]\w*)\}|\$?([A-Za-z_]\w*))$`)
})

// secrets reads the secrets by name.
func (r *reader) secrets(e entry) []Secret {
	var all []Secret
	for _, s := range r.members(e) {
		if !isName(s.name) {
			r.fail(s.key, "%q cannot be the name of a variable: use letters, digits and underscores", s.name)
		}
		all = append(all, r.secret(s))
	}
	return all
}

func (r *reader) secret(e entry) Secret {
	s := Secret{Name: e.name, Pos: place(e.value)}
	if e.value.Kind == yaml.MappingNode {
		b := r.block("secret", e, r.fields(&s))
		if b.has("file") && b.has("command") {
			r.fail(b.written["command"].key, `secret has both "file" and "command": write one of them`)
		}
		r.require(b, "file", "command")
		return s
	}
	var found []string
	if e.value.Kind == yaml.ScalarNode && e.value.Tag == "!!str" {
		found = environmentName().FindStringSubmatch(e.value.Value)
	}
	if found == nil { // the value is not told: it may be a secret
		r.fail(e.value, `%s: want the name of an environment variable, {file: …} or {command: …}, not a value`, e.name)
		return s
	}
	s.Env = strings.Join(found[1:], "")
	return s
}

// checkSecretValue reports a secret value that could not be taken out of the file, of which a copy is kept with the job.
func (r *reader) checkSecretValue(b *block) {
	n := b.at("value")
	t := r.locate(n, n.Value)
	line := []rune(r.line(t.Pos.Line - 1))
	start := min(max(t.Pos.Col-1, 0), len(line))
	if len(line) > 0 && (t.Block || !strings.HasPrefix(string(line[start:]), n.Value)) {
		r.fail(n, "a secret value must stand on one line and without escapes: use single quotes, or take it from a file or a variable by secrets")
	}
}

// onePlaceholder matches a value that names where it comes from, and so is no secret itself.
var onePlaceholder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\$\{[^}]+\}$`) })

// Written tells whether the value of a secret variable stands in the workflow file itself.
func (v EnvVar) Written() bool {
	return v.Secret && v.Command == nil && !onePlaceholder().MatchString(v.Value.Value)
}

// Redact returns the source of w with the secrets that are written in it masked.
func (w *Workflow) Redact(source []byte) []byte {
	lines := strings.SplitAfter(string(source), "\n")
	for _, v := range w.allVariables() {
		if !v.Written() {
			continue
		}
		index := v.Value.Pos.Line - 1
		line, bom := strings.CutPrefix(lines[index], "\ufeff")
		runes := []rune(line)
		start := v.Value.Pos.Col - 1
		end := start + len([]rune(v.Value.Value))
		line = string(runes[:start]) + maskAfter(runes[:start]) + string(runes[end:])
		if bom {
			line = "\ufeff" + line
		}
		lines[index] = line
	}
	return []byte(strings.Join(lines, ""))
}

// maskAfter returns the mask as YAML has it behind what stands before it in its line: without quotes it would be the name of an anchor.
func maskAfter(before []rune) string {
	if n := len(before); n > 0 && (before[n-1] == '"' || before[n-1] == '\'') {
		return Masked
	}
	return `"` + Masked + `"`
}

// allVariables returns the variables of env and of all profiles.
func (w *Workflow) allVariables() []EnvVar {
	all := w.Env[:len(w.Env):len(w.Env)]
	for _, p := range w.Profiles {
		all = append(all, p.Env...)
	}
	return all
}
