// Package settings resolves the parameters, variables and secrets of a job.
//
// All of it is resolved before anything of the job runs, or the job does not start. Variables are found in
// the order of their precedence, the lowest first: inherited ones, files, env, the profile. Those of a step
// come on top when it runs, and then the secrets.
package settings

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"prodigy/internal/check"
	"prodigy/internal/items"
	"prodigy/internal/mask"
	"prodigy/internal/process"
	"prodigy/internal/shell/template"
	"prodigy/internal/workflow"
)

// Purpose is what settings are resolved for. Each asks for less than the one before.
type Purpose int

// The purposes.
const (
	// ToRun requires all values, and runs the commands that give them.
	ToRun Purpose = iota
	// ToPlan runs no command: what it would give is not known. The values of secrets are hidden.
	ToPlan
	// ToSimulate does not miss secrets that have no value.
	ToSimulate
	// ToCheck does not miss required parameters either.
	ToCheck
)

// Options are the options of a run.
type Options struct {
	Purpose Purpose
	// Dir is where relative names of files start and commands run.
	Dir string
	// Environ is the inherited environment.
	Environ []string
	// Profile is the name of a profile of the workflow, or empty.
	Profile string
	// Params are parameters as they were given. The others have their defaults.
	Params []workflow.Argument
	// Set has values of variables, by name, in place of those that the workflow gives them.
	Set map[string]string
	// Source is the path of the workflow as it was written. A recorded one lacks the secrets that are written in it.
	Source string
}

// Settings holds the parameters, variables and secrets of a job. The zero Settings has none.
type Settings struct {
	Profile string
	// Args are all parameters of the workflow, in its order. One without a value has a nil value.
	Args []workflow.Argument
	// Env are the variables of files, env and the profile. Those that are secret have no value here.
	Env []workflow.EnvVar
	// Final are the names of the secrets, which go before all other variables.
	Final []string
	// Unmasked means that there are secrets that Mask does not know, since nothing has asked for their values.
	Unmasked bool
	// Secrets has the values of Final and of the secret ones among Env.
	Secrets map[string]string
	// Mask takes all of them out of what is written. A nil one takes out nothing.
	Mask     *mask.Masker
	Warnings []workflow.Problem

	purpose Purpose
	// known are the values that are known before the job starts.
	known scope
}

// Environ returns the environment of a command that runs once for the job, such as that of its input. It
// includes the parameters.
func (s Settings) Environ(inherited []string) []string {
	all := s.known.environ(inherited)
	for _, arg := range s.Args {
		if arg.Value != nil {
			all = append(all, arg.Name+"="+template.JSON(arg.Value).String())
		}
	}
	return all
}

// Lookup returns the value of a parameter or variable that is known before the job starts. It ignores
// inherited variables.
func (s Settings) Lookup(name string) (string, bool) {
	for _, arg := range s.Args {
		if arg.Name == name && arg.Value != nil {
			return template.JSON(arg.Value).String(), true
		}
	}
	value, ok := s.known.values[name]
	return value, ok
}

// Find returns the value of an environment variable as a step of w would see it, if it is known before the run. Environ is
// what is inherited.
func (s Settings) Find(w *workflow.Workflow, environ []string, name string) (string, bool) {
	if value, ok := s.Lookup(name); ok {
		return value, true
	}
	for _, v := range slices.Backward(w.Env) { // when the settings have not been resolved
		if v.Name == name && v.Command == nil && v.Choice == nil {
			return v.Value.Value, true
		}
	}
	return process.Variable(environ, name)
}

// With returns s with more variables, whose values became known after the job started.
func (s Settings) With(values map[string]string) Settings {
	s.known.names, s.known.values = slices.Clone(s.known.names), maps.Clone(s.known.values)
	if s.known.values == nil {
		s.known.values = map[string]string{}
	}
	for name, value := range check.ByKey(values) {
		s.known.set(name, value)
	}
	return s
}

// Settle returns s with the values that the variables have now whose commands run for each agent. They run in dir. A
// variable stays without a value if its command fails, or names what only an agent has.
func (s Settings) Settle(ctx context.Context, dir string, environ []string, register *process.Register) Settings {
	s = s.With(nil)
	for _, v := range s.Env {
		if _, known := s.known.values[v.Name]; known {
			continue
		}
		value, err := "", error(nil)
		if v.Command != nil {
			value, err = s.known.output(ctx, *v.Command, dir, environ, register)
		} else {
			value, err = s.known.bind(v.Value)
		}
		if err == nil {
			s.known.set(v.Name, value)
		}
	}
	return s
}

// Fill returns text, a file name, with its placeholders replaced by parameters and variables, including inherited ones.
func (s Settings) Fill(text string) (string, error) {
	names := s.known.template()
	for name := range s.known.inherited {
		names = names.With(name, template.Name{Declared: true})
	}
	p, err := template.CompileEarly(text, names)
	if err != nil {
		return "", err
	}
	known := s.known
	known.values = map[string]string{}
	maps.Copy(known.values, known.inherited)
	maps.Copy(known.values, s.known.values)
	filled, err := p.Bind(known)
	if err != nil && s.purpose != ToRun {
		err = fmt.Errorf("%w: %w", items.ErrLater, err)
	}
	return filled, err
}

// Resolve returns the settings of a run of w. The error is a *workflow.InvalidError if a value is missing or invalid.
func Resolve(ctx context.Context, w *workflow.Workflow, o Options) (Settings, error) {
	r := &resolver{w: w, o: o, known: newScope(w.Name, o.Environ)}
	r.out.Secrets = map[string]string{}
	var profile workflow.Profile
	if o.Profile != "" {
		var err error
		if profile, err = w.ProfileNamed(o.Profile); err != nil {
			return Settings{}, err
		}
	}
	r.out.Profile = o.Profile
	r.parameters()
	r.files()
	r.original(profile)
	r.plainSecrets()
	all := r.merged(profile)
	if err := r.checkSet(all); err != nil {
		return Settings{}, err
	}
	for _, v := range all {
		if _, set := o.Set[v.Name]; !set {
			r.variable(ctx, v)
		}
	}
	for name, text := range check.ByKey(o.Set) {
		r.literal(workflow.EnvVar{Name: name}, text)
	}
	r.secretCommands(ctx)
	if ctx.Err() != nil {
		return Settings{}, context.Cause(ctx)
	}
	if len(r.problems) > 0 {
		return Settings{}, &workflow.InvalidError{Problems: r.problems}
	}
	r.warnShort()
	r.out.Mask = mask.New(slices.AppendSeq(r.printed, maps.Values(r.out.Secrets)))
	r.out.known, r.out.purpose = r.known, o.Purpose
	if o.Purpose != ToRun {
		r.hideSecrets()
	}
	return r.out, nil
}

// hideSecrets gives all secrets the same value, also those that have not been asked for.
func (r *resolver) hideSecrets() {
	hide := func(name string) {
		if _, valued := r.out.Secrets[name]; !valued {
			r.out.Unmasked = true
		}
		r.out.Secrets[name] = mask.Mark
	}
	for _, name := range r.out.Final {
		hide(name)
	}
	for _, v := range r.out.Env {
		if v.Secret {
			hide(v.Name)
		}
	}
}

// merged returns the variables of env, overridden by those of the profile, and then those that only the
// profile has. It omits variables that a secret of the same name overrides.
func (r *resolver) merged(p workflow.Profile) []workflow.EnvVar {
	all := slices.Clone(r.w.Env)
	for _, v := range p.Env {
		if i := slices.IndexFunc(all, func(e workflow.EnvVar) bool { return e.Name == v.Name }); i >= 0 {
			all[i] = v
			continue
		}
		all = append(all, v)
	}
	return slices.DeleteFunc(all, func(v workflow.EnvVar) bool {
		return slices.ContainsFunc(r.w.Secrets, func(s workflow.Secret) bool { return s.Name == v.Name })
	})
}

// checkSet refuses values for variables that the workflow does not have, and for secrets, which are found
// where the workflow says.
func (r *resolver) checkSet(all []workflow.EnvVar) error {
	for name := range check.ByKey(r.o.Set) {
		at := slices.IndexFunc(all, func(v workflow.EnvVar) bool { return v.Name == name })
		secret := at >= 0 && all[at].Secret ||
			slices.ContainsFunc(r.w.Secrets, func(s workflow.Secret) bool { return s.Name == name })
		switch {
		case secret:
			return fmt.Errorf("%s is a secret: its value comes only from the source in the workflow", name)
		case at < 0 && !slices.Contains(r.known.names, name):
			return fmt.Errorf("the workflow has no parameter or variable %s", name)
		}
	}
	return nil
}

// resolver is the state of one Resolve.
type resolver struct {
	w     *workflow.Workflow
	o     Options
	known scope
	// printed are texts that secret commands would print that are not run, as far as they stand in the file.
	printed []string
	// out is the result so far.
	out      Settings
	problems []workflow.Problem
}

// fail adds a problem of the workflow. A position that is not known becomes the beginning of the file.
func (r *resolver) fail(at workflow.Pos, format string, args ...any) {
	at.Line, at.Col = max(1, at.Line), max(1, at.Col)
	r.problems = append(r.problems, r.w.ProblemAt(at, fmt.Sprintf(format, args...)))
}

// keep adds a variable to the environment of attempts.
func (r *resolver) keep(v workflow.EnvVar) { r.out.Env = append(r.out.Env, v) }

// literal keeps a variable with its final value.
func (r *resolver) literal(v workflow.EnvVar, value string) {
	r.known.set(v.Name, value)
	if v.Secret {
		r.out.Secrets[v.Name] = value
		r.keep(workflow.EnvVar{Name: v.Name, Secret: true})
		return
	}
	r.keep(workflow.EnvVar{Name: v.Name, Literal: true, Value: workflow.Text{Value: value, Pos: v.Value.Pos}})
}

// warnShort warns of secrets that are too short to be masked.
func (r *resolver) warnShort() {
	for name, secret := range check.ByKey(r.out.Secrets) {
		if !mask.Short(secret) {
			continue
		}
		r.out.Warnings = append(r.out.Warnings, r.w.ProblemAt(workflow.Pos{Line: 1, Col: 1}, fmt.Sprintf(
			"the secret %s has less than four characters: it is masked only as a whole word", name)))
	}
}
