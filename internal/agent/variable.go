package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"prodigy/internal/process"
	"prodigy/internal/retry"
	"prodigy/internal/template"
	"prodigy/internal/workflow"
)

// variable is one of an env block, compiled: a text, a command whose output is the value, a literal or a secret.
type variable struct {
	name    string
	value   *template.Plain // nil: it is none of the first kind
	command command         // nil: none of the second
	literal string
	secret  bool // the value is the executor's
}

// env compiles a block of variables, of which each sees the ones before it. Without a step it is the block of the workflow.
func (c *compiler) env(s *step, vars []workflow.EnvVar, p place) []variable {
	compiled := make([]variable, len(vars))
	for i, v := range vars {
		c.envName(v.Name, v.At())
		compiled[i] = c.variable(s, v, p)
		c.steering(v, compiled[i], p)
		p = p.with(vars[i : i+1])
	}
	return compiled
}

func (c *compiler) variable(s *step, v workflow.EnvVar, p place) variable {
	compiled := variable{name: v.Name}
	switch {
	case v.Command != nil:
		compiled.command = c.command(s, kinds()["shell"], v.Command.Value, v.Command.At, p)
	case v.Choice != nil: // not decided yet, so only a look at the texts
		compiled.value = c.plain(s, v.Choice.WhenTrue, p)
		c.plain(s, v.Choice.WhenFalse, p)
	case v.Literal:
		compiled.literal = v.Value.Value
	case v.Secret && v.Value.Value == "":
		compiled.secret = true
	default:
		compiled.value = c.plain(s, v.Value, p)
	}
	return compiled
}

// bindEnv returns the variables of a block as "K=V", after those in s. Each sees the ones before it. A secret of the same name goes
// before it.
func (r *run) bindEnv(s *scope, vars []variable) ([]string, error) {
	inner := *s
	inner.env = slices.Clip(s.env)
	for _, v := range vars {
		if slices.Contains(r.a.Secrets, v.name) {
			continue
		}
		value, err := r.valueOf(&inner, v)
		if err != nil {
			return nil, fmt.Errorf("env %s: %w", v.name, err)
		}
		if strings.IndexByte(value, 0) >= 0 {
			return nil, fmt.Errorf("env %s: %w", v.name, &template.BindError{Text: "the value holds a NUL byte, which no variable can"})
		}
		inner.env = append(inner.env, v.name+"="+value)
	}
	return inner.env, nil
}

func (r *run) valueOf(s *scope, v variable) (string, error) {
	switch {
	case v.command != nil:
		return r.printed(s, v.command)
	case v.value != nil:
		return v.value.Bind(s)
	case v.secret:
		return r.secret(v.name)
	}
	return v.literal, nil
}

// secret returns a value that the executor has been given beside the attempt.
func (r *run) secret(name string) (string, error) {
	value, ok := r.x.Secrets[name]
	if !ok {
		return "", errors.New("the secret is not here")
	}
	return value, nil
}

// secrets returns the secrets that go before all other variables, which see them.
func (r *run) secrets() ([]string, error) {
	vars := make([]string, 0, len(r.a.Secrets))
	for _, name := range r.a.Secrets {
		value, err := r.secret(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		vars = append(vars, name+"="+value)
	}
	return vars, nil
}

// maxValueTime is how long a command may take that gives a variable its value.
const maxValueTime = time.Minute

// commandError is the failure of a command that gives a variable its value.
type commandError struct{ failure retry.Failure }

func (e *commandError) Error() string { return "the command for its value: " + e.failure.Message }

// printed runs a command and returns what it printed, without newlines at the end.
func (r *run) printed(s *scope, cmd command) (string, error) {
	c, err := cmd.bind(s, r.x)
	if err != nil {
		return "", err
	}
	b := bound{call: c, dir: r.a.Dir, env: r.environ(s.env, c), scratch: s.scratch}
	if err := r.files(&b); err != nil {
		return "", err
	}
	stdout, stderr := r.x.stream(), r.x.stream()
	exit, err := r.x.Run(r.stop, process.Command{
		Path: b.path, Argv: b.argv, Dir: b.dir, Env: b.env, Stdout: stdout, Stderr: stderr, Timeout: maxValueTime, Grace: r.x.Grace,
		Register: r.x.host.Register(),
	})
	if err != nil {
		return "", err
	}
	if f := failureOf(&step{Step: &workflow.Step{Timeout: maxValueTime}}, exit, kept(stderr.shown())); f != nil {
		return "", &commandError{f.Failure}
	}
	return kept(&stdout.Capture), nil
}

// bindFailure is what a binding failed by, as the failure of st. A stop is none.
func (r *run) bindFailure(st *step, err error) (*Failure, error) {
	if r.stop != nil && r.stop.Err() != nil {
		return nil, context.Cause(r.stop)
	}
	var command *commandError
	if !errors.As(err, &command) {
		return templateFailure(st, err), nil
	}
	f := &Failure{Step: st.label, Failure: command.failure}
	f.Message = err.Error()
	return f, nil
}
