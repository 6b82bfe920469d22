package settings

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/filter"
	"prodigy/internal/process"
	"prodigy/internal/shell/template"
	"prodigy/internal/workflow"
)

// files reads env_files. Later files override earlier ones.
func (r *resolver) files() {
	for _, name := range r.w.EnvFiles {
		path, err := r.known.bind(name)
		if err != nil {
			r.fail(name.Pos, "env_files: %v", err)
			continue
		}
		data, err := r.read(path)
		if err != nil {
			missing := ""
			if errors.Is(err, os.ErrNotExist) {
				missing = ": create the file, or remove it from the list"
			}
			r.fail(name.Pos, "env_files: %s: %v%s", path, cause(err), missing)
			continue
		}
		vars, err := parseDotenv(data)
		if err != nil {
			r.fail(name.Pos, "env_files: %s: %v", path, err)
			continue
		}
		for _, v := range vars {
			r.literal(workflow.EnvVar{Name: v.Name}, v.Value)
		}
	}
}

// maxFile bounds the size of a file with variables or a secret.
const maxFile = 1 << 20

// read reads a file. A check does not open anything but regular files: others may block, or never end.
func (r *resolver) read(name string) ([]byte, error) {
	path := process.Resolve(r.o.Dir, name)
	if info, err := os.Stat(path); r.o.Purpose == ToCheck && err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer check.Quietly(file.Close)
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("the file exceeds %d bytes", maxFile)
	}
	return data, err
}

// cause returns the error of a file operation without the name of the file.
func cause(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// variable resolves a variable as far as possible before the job starts.
func (r *resolver) variable(ctx context.Context, v workflow.EnvVar) {
	if v.Choice != nil {
		v = r.choose(v)
	}
	switch {
	case v.Command != nil && r.o.Purpose != ToRun:
		r.known.unknown(v.Name)
		if v.Secret {
			r.written(*v.Command)
		}
		r.keep(v)
	case v.Command != nil && (v.Cache || v.Secret):
		value, err := r.output(ctx, *v.Command, v.Secret)
		if err != nil {
			r.fail(v.Command.Pos, "env %s: %v", v.Name, err)
			return
		}
		r.literal(v, value)
	case v.Command != nil:
		r.known.unknown(v.Name)
		r.keep(v)
	case v.Secret:
		r.secretValue(v)
	default:
		// Its value is set if all of its placeholders are known.
		if value, err := r.known.bind(v.Value); err == nil {
			r.known.set(v.Name, value)
		} else {
			r.known.unknown(v.Name)
		}
		r.keep(v)
	}
}

// output returns what a command prints. That of a secret must print something.
func (r *resolver) output(ctx context.Context, command workflow.Text, secret bool) (string, error) {
	value, err := r.known.output(ctx, command, r.o.Dir, r.o.Environ, nil)
	if err == nil && secret && value == "" {
		err = errors.New("the command printed nothing")
	}
	return value, err
}

// choose returns v with the value that its condition selects.
func (r *resolver) choose(v workflow.EnvVar) workflow.EnvVar {
	met, err := r.holds(v.Choice.Condition)
	if err != nil {
		r.fail(v.Choice.ConditionPos, "condition: %v", err)
		return v
	}
	chosen := v.Choice.WhenFalse
	if met {
		chosen = v.Choice.WhenTrue
	}
	return workflow.EnvVar{Name: v.Name, Value: chosen}
}

// holds reports whether a condition is true. A name without a value is null.
func (r *resolver) holds(text string) (bool, error) {
	parsed, err := filter.ParseCondition(text)
	if err != nil {
		return false, err
	}
	return parsed.Holds(func(i int) (filter.Value, error) { return r.operand(parsed.Terms[i]) })
}

// operand returns one side of a comparison: a text with its placeholders filled, or the value of an expression.
func (r *resolver) operand(t filter.Term) (filter.Value, error) {
	if t.Text {
		text, err := r.known.bind(workflow.Text{Value: t.Src})
		return filter.Untyped(text), err
	}
	single, err := template.CompileExpression(t.Src, r.known.with([]string{"env", "workflow"})) // that have values
	if err != nil {
		return filter.Value{}, err
	}
	v, ok, err := single.Operand(r.known)
	if err == nil && !ok && r.o.Purpose == ToRun && slices.Contains(r.known.names, t.Src) {
		err = fmt.Errorf("%s is not available yet: commands with cache: true run before the job starts", t.Src)
	}
	return v, err
}

// Check returns problems of the settings that do not depend on the options of a run. The caller sets Problem.File.
func Check(w *workflow.Workflow) []workflow.Problem {
	var found []workflow.Problem
	taken := map[string]bool{}
	blocks := [][]workflow.EnvVar{w.Env}
	for _, p := range w.Profiles {
		blocks = append(blocks, p.Env)
	}
	for _, vars := range blocks {
		for _, v := range vars {
			taken[v.Name] = true
			if v.Choice == nil {
				continue
			}
			if _, err := filter.ParseCondition(v.Choice.Condition); err != nil {
				found = append(found, v.Choice.ConditionPos.Problem("condition: %v", err))
			}
		}
	}
	for _, s := range w.Secrets {
		taken[s.Name] = true
	}
	for _, p := range w.Parameters {
		switch {
		case taken[p.Name]:
			found = append(found, p.Pos.Problem("parameter %s: a variable has this name; choose another", p.Name))
		case template.ReservedName(p.Name):
			found = append(found, p.Pos.Problem("parameter %s: a variable of this name would change how the shell or its programs behave; choose another", p.Name))
		}
	}
	return found
}

// bind returns a text with its placeholders replaced.
func (s scope) bind(t workflow.Text) (string, error) {
	p, err := template.CompileEarly(t.Value, s.template())
	if err != nil {
		return "", err
	}
	return p.Bind(s)
}

// Limits of a command whose output is a value.
const (
	maxTime   = time.Minute
	maxOutput = 64 << 10
	grace     = 2 * time.Second
)

// output runs a command and returns its output without trailing newlines.
func (s scope) output(ctx context.Context, command workflow.Text, dir string, environ []string, register *process.Register) (string, error) {
	t, err := template.Compile(command.Value, template.Options{Names: s.template()})
	if err != nil {
		return "", err
	}
	inv, err := t.Bind(s)
	if err != nil {
		return "", err
	}
	if inv.Values != "" || inv.AsFile {
		return "", errors.New("the command's values are too large")
	}
	stdout := &process.Capture{Limit: 2 * maxOutput}
	stderr := &process.Capture{Limit: 8 << 10}
	exit, err := process.Run(ctx, process.Command{
		Argv: []string{"sh", "-c", inv.Script}, Dir: dir, Env: append(s.environ(environ), inv.Env...),
		Stdout: stdout, Stderr: stderr, Timeout: maxTime, Grace: grace, Register: register,
	})
	if err != nil {
		return "", err
	}
	switch said := check.LastLine(stderr.Tail(2 << 10)); {
	case exit.Start != nil:
		return "", fmt.Errorf("cannot start the command: %w", exit.Start)
	case exit.TimedOut:
		return "", fmt.Errorf("the command took longer than %s", maxTime)
	case exit.Code != 0 && said != "":
		return "", fmt.Errorf("the command failed with exit code %d: %s", exit.Code, said)
	case exit.Code != 0:
		return "", fmt.Errorf("the command failed with exit code %d", exit.Code)
	}
	value := strings.TrimRight(stdout.Text(), "\r\n")
	return value, fits(value)
}

// fits returns an error if a value cannot be that of a variable.
func fits(value string) error {
	switch {
	case len(value) > maxOutput:
		return fmt.Errorf("the value exceeds %d bytes", maxOutput)
	case strings.IndexByte(value, 0) >= 0:
		return errors.New("the value contains a NUL byte, which is not allowed in a variable")
	}
	return nil
}
