package agent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"prodigy/internal/process"
	"prodigy/internal/retry"
	"prodigy/internal/shell/template"
	"prodigy/internal/workflow"
)

// bind puts the values into one of the commands of st, and makes its private files. A value that is missing or
// does not fit is a failure.
func (r *run) bind(s *scope, st *step, cmd command) (boundCommand, error) {
	if st.broken != nil {
		return boundCommand{}, st.fails(retry.TypeTemplate, st.broken.Error())
	}
	if r.envErr != nil {
		return boundCommand{}, r.bindFailure(st, r.envErr)
	}
	r.lostSecret = nil
	files := scratch{run: r}
	inner := s.binding(st)
	inner.scratch = &files
	b, err := r.bindTexts(inner, st, cmd)
	if err == nil {
		err = b.makeFiles()
	}
	err = cmp.Or(r.lostSecret, err)
	// A simulated step does without a value that a simulated command may have printed. What items lack, they lack in
	// a real run, too.
	if lacks, ok := errors.AsType[*template.BindError](err); ok && r.x.Simulate != nil && r.x.unknown.Load() &&
		lacks.Missing && !strings.HasPrefix(lacks.Placeholder, "${item.") {
		b, err = boundCommand{scope: inner, scratch: &files, dir: r.a.Dir}, nil
		switch cmd.(type) {
		case *writeFile, *foreach:
			b.action = nothing
		}
	}
	if err == nil && r.rowsErr == nil {
		return b, nil
	}
	files.remove()
	if broken := cmp.Or(r.rowsErr, files.err); broken != nil {
		return boundCommand{}, broken
	}
	return boundCommand{}, r.bindFailure(st, err)
}

// bindTexts binds the texts of st: its variables first, since the others see them.
func (r *run) bindTexts(s *scope, st *step, cmd command) (b boundCommand, err error) {
	if s.env, err = r.bindEnv(s, st.env); err != nil {
		return boundCommand{}, err
	}
	b.scope, b.scratch = s, s.scratch
	if b.call, err = cmd.bind(s, r.x); err != nil {
		return boundCommand{}, err
	}
	if b.dir, err = r.dir(s, st); err != nil {
		return boundCommand{}, err
	}
	b.env = r.environ(s.env, b.call, b.dir)
	if b.aiRun != nil && !b.aiRun.raw {
		if err := b.complete(r); err != nil {
			return boundCommand{}, err
		}
	}
	if b.output, err = st.output.bind(s, b.dir); b.output != nil {
		b.output.tag = r.outputTag(s, st)
	}
	return b, err
}

// outputTag returns a text that differs between all steps that may write the same output_file at once.
func (r *run) outputTag(s *scope, st *step) string {
	names := fmt.Appendf(nil, "%q %q %q %q", r.a.JobID, r.a.Phase, r.a.ItemID, st.label)
	for l := s.loop; l != nil; l = l.outer {
		names = fmt.Appendf(names, " %d", l.index)
	}
	return fmt.Sprintf("%x", sha256.Sum256(names))[:16]
}

// dir returns the working directory of st.
func (r *run) dir(s *scope, st *step) (string, error) {
	if st.dir == nil {
		return cmp.Or(s.dir, r.a.Dir), nil
	}
	dir, err := st.dir.Bind(s)
	if err != nil {
		return "", err
	}
	return process.Resolve(r.a.Dir, dir), nil
}

// makeFiles writes the private files that b needs and makes b name them.
func (b *boundCommand) makeFiles() error {
	if b.values != "" {
		path, err := b.scratch.addValues("values-*.sh", b.values)
		if err != nil {
			return err
		}
		b.env = append(b.env, valuesVar+"="+path)
	}
	if b.script != "" {
		path, err := b.scratch.add("script-*.sh", b.script)
		if err != nil {
			return err
		}
		b.argv = append(b.argv, path)
	}
	return nil
}

// bindEnv returns the variables of a block as "K=V", after those in s. Each sees the ones before it. A secret
// overrides a variable of its name.
func (r *run) bindEnv(s *scope, vars []variable) ([]string, error) {
	inner := *s
	inner.env = slices.Clip(s.env)
	for _, v := range vars {
		if slices.Contains(r.a.Secrets, v.name) {
			continue
		}
		value, err := v.literal, error(nil)
		switch {
		case v.command != nil:
			value, err = r.commandValue(&inner, v.command)
		case v.value != nil:
			value, err = v.value.Bind(&inner)
		case v.secret:
			value, err = r.secret(v.name)
		}
		if err == nil && strings.IndexByte(value, 0) >= 0 {
			err = unfit("the value contains a NUL byte, which is not allowed in a variable")
		}
		if err != nil {
			return nil, fmt.Errorf("env %s: %w", v.name, err)
		}
		inner.env = append(inner.env, v.name+"="+value)
	}
	return inner.env, nil
}

// secret returns a value that the Executor was given beside the attempt.
func (r *run) secret(name string) (string, error) {
	value, ok := r.x.Secrets[name]
	if !ok {
		return "", errors.New("the secret is not available here")
	}
	return value, nil
}

// maxValueTime is how long a command may take that gives a variable its value.
const maxValueTime = time.Minute

// commandValue runs a command and returns what it printed, without trailing newlines.
func (r *run) commandValue(s *scope, cmd command) (string, error) {
	c, err := cmd.bind(s, r.x)
	if err != nil || r.x.Simulate != nil {
		return "", err
	}
	b := boundCommand{call: c, dir: r.a.Dir, env: r.environ(s.env, c, r.a.Dir), scratch: s.scratch}
	if err := b.makeFiles(); err != nil {
		return "", err
	}
	stdout, stderr := newStream(r.x.Mask), newStream(r.x.Mask)
	st := &step{Step: &workflow.Step{Timeout: maxValueTime}}
	exit, err := r.execWithTimeout(r.stop, st, b, &sink{kept: stdout}, stderr)
	if err != nil {
		return "", err
	}
	f := failureOf(st, exit, trimmed(stderr.masked()))
	if f != nil {
		f.Message = "its command: " + f.Message
		return "", f
	}
	return trimmed(&stdout.Capture), nil
}

// unfit returns the error of a value that cannot be used.
func unfit(why string) error { return &template.BindError{Text: why} }

// bindFailure returns an error of a binding as the failure of st. A stop is not a failure.
func (r *run) bindFailure(st *step, err error) error {
	if r.stop.Err() != nil {
		return context.Cause(r.stop)
	}
	f := st.fails(retry.TypeTemplate, err.Error())
	if command := failureIn(err); command != nil { // of the command of a variable
		f.Failure = command.Failure
		f.Message = err.Error()
	}
	return f
}
