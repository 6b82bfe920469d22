package settings

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"prodigy/internal/workflow"
)

// plainSecrets resolves the secrets that need no command. Later texts can use them.
func (r *resolver) plainSecrets() {
	for _, s := range r.w.Secrets {
		if s.Command != nil {
			continue
		}
		value, err := r.plainSecret(s)
		if err != nil && r.o.Purpose >= ToSimulate {
			r.declare(s.Name)
			continue
		}
		r.secret(s, value, err)
	}
}

// plainSecret returns the value of a secret in a file or a variable. An empty value is an error, since it would hide
// nothing.
func (r *resolver) plainSecret(s workflow.Secret) (string, error) {
	if s.File != nil {
		return r.secretFile(*s.File)
	}
	value, ok := r.known.values[s.Env] // of a file
	if !ok {
		value, ok = r.known.inherited[s.Env]
	}
	if !ok {
		return "", fmt.Errorf("the environment variable %s is not set", s.Env)
	}
	if value == "" {
		return "", fmt.Errorf("the environment variable %s is empty", s.Env)
	}
	return value, nil
}

// secretFile returns the content of a file without newlines at its end.
func (r *resolver) secretFile(name workflow.Text) (string, error) {
	path, err := r.known.bind(name)
	if err != nil {
		return "", err
	}
	data, err := r.read(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, cause(err))
	}
	value := strings.TrimRight(string(data), "\r\n")
	if value == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return value, fits(value)
}

// secretCommands runs the commands of secrets. Their environment has all other variables and secrets.
func (r *resolver) secretCommands(ctx context.Context) {
	for _, s := range r.w.Secrets {
		switch {
		case s.Command == nil:
		case r.o.Purpose != ToRun:
			r.declare(s.Name)
			r.written(*s.Command)
		default:
			value, err := r.output(ctx, *s.Command, true)
			r.secret(s, value, err)
		}
	}
}

// written masks what a command would print that is not run, where that stands in the file: the text of an echo, the
// last word of a printf.
func (r *resolver) written(command workflow.Text) {
	program, text, _ := strings.Cut(strings.TrimSpace(command.Value), " ")
	if program != "echo" && program != "printf" {
		return
	}
	text = strings.TrimPrefix(strings.TrimSpace(text), "-n ")
	switch last := text[max(0, len(text)-1):]; {
	case last == "'" || last == `"`:
		text = strings.TrimSuffix(text, last)
		text = text[strings.LastIndex(text, last)+1:]
	case program == "printf":
		text = text[strings.LastIndexByte(text, ' ')+1:]
	}
	if !strings.ContainsAny(text, "$`\\|&;<>(){}") {
		r.printed = append(r.printed, text)
	}
}

// secret adds a secret, or reports that it is missing.
func (r *resolver) secret(s workflow.Secret, value string, err error) {
	if err != nil {
		r.fail(s.Pos, "secret %s: %v", s.Name, err)
		return
	}
	r.known.set(s.Name, value)
	r.out.Final = append(r.out.Final, s.Name)
	r.out.Secrets[s.Name] = value
}

// declare adds a secret without a value.
func (r *resolver) declare(name string) {
	r.known.unknown(name)
	r.out.Final = append(r.out.Final, name)
}

// secretValue adds a secret variable whose value is written in the workflow.
func (r *resolver) secretValue(v workflow.EnvVar) {
	value, err := r.reference(v.Value)
	if err == nil && value == "" {
		err = errors.New("the value is empty")
	}
	switch {
	case err == nil:
		r.literal(v, value)
	case r.o.Purpose >= ToSimulate:
		r.keep(workflow.EnvVar{Name: v.Name, Secret: true})
	default:
		r.fail(v.Value.Pos, "env %s: %v", v.Name, err)
	}
}

// reference returns the value of a text with placeholders. A plain name can also be an inherited variable.
func (r *resolver) reference(t workflow.Text) (string, error) {
	name, ok := strings.CutSuffix(strings.TrimPrefix(t.Value, "${"), "}")
	if ok = ok && strings.HasPrefix(t.Value, "${"); ok {
		if value, ok := r.known.inherited[name]; ok {
			return value, nil
		}
	}
	value, err := r.known.bind(t)
	if err == nil && value == t.Value && ok {
		err = fmt.Errorf("%s is not set", name)
	}
	return value, err
}

// original restores the secrets that were redacted in a recorded workflow, from its original file.
func (r *resolver) original(p workflow.Profile) {
	if r.o.Source == "" || !slices.ContainsFunc(slices.Concat(r.w.Env, p.Env), redacted) {
		return
	}
	data, err := os.ReadFile(r.o.Source)
	var w *workflow.Workflow
	if err == nil {
		w, err = workflow.Parse(r.o.Source, data, workflow.ParseOptions{})
	}
	if err != nil {
		r.fail(workflow.Pos{}, "this job's secrets are declared in its workflow, %s, which cannot be read: %v", r.o.Source, cause(err))
		return
	}
	r.restore(r.w.Env, w.Env)
	if now, err := w.ProfileNamed(p.Name); err == nil {
		r.restore(p.Env, now.Env)
	}
}

// redacted reports whether the value of a variable was left out of a recorded workflow.
func redacted(v workflow.EnvVar) bool {
	return v.Secret && v.Command == nil && v.Value.Value == workflow.Masked
}

// restore copies the values of redacted variables from from.
func (r *resolver) restore(vars, from []workflow.EnvVar) {
	for i, v := range vars {
		if !redacted(v) {
			continue
		}
		at := slices.IndexFunc(from, func(o workflow.EnvVar) bool { return o.Name == v.Name && o.Secret && o.Command == nil })
		if at < 0 {
			r.fail(v.Value.Pos, "secret %s is no longer in %s", v.Name, r.o.Source)
			continue
		}
		vars[i].Value = from[at].Value
	}
}
