package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/process"
	"prodigy/internal/retry"
)

// bound is a command with all that it needs to run.
type bound struct {
	call
	env    []string
	dir    string
	scope  *scope
	output *destination // of stdout, beside the capture; nil: none

	scratch *scratch // for who runs it to remove
}

// bind puts the values into one of the commands of st. A value that is missing or does not fit is a failure.
func (r *run) bind(s *scope, st *step, cmd command) (bound, *Failure, error) {
	if cmd == nil || st.broken != nil {
		return bound{}, templateFailure(st, st.broken), nil
	}
	if r.envErr != nil {
		f, err := r.bindFailure(st, r.envErr)
		return bound{}, f, err
	}
	r.missed = nil
	inner := s.binding(st)
	inner.scratch = &scratch{run: r}
	b, err := r.values(inner, st, cmd)
	if err == nil {
		b.scratch = inner.scratch
		err = r.files(&b)
	}
	if r.missed != nil {
		err = r.missed
	}
	if err == nil && r.rowsErr == nil {
		return b, nil, nil
	}
	inner.scratch.remove()
	if broken := cmp.Or(r.rowsErr, inner.scratch.err); broken != nil {
		return bound{}, nil, broken
	}
	f, err := r.bindFailure(st, err)
	return bound{}, f, err
}

func (r *run) values(s *scope, st *step, cmd command) (bound, error) {
	vars, err := r.bindEnv(s, st.env)
	if err != nil {
		return bound{}, err
	}
	s.env = vars
	c, err := cmd.bind(s, r.x)
	if err != nil {
		return bound{}, err
	}
	b := bound{call: c, env: r.environ(vars, c), scope: s}
	if b.dir, err = r.dir(s, st); err != nil {
		return bound{}, err
	}
	b.output, err = st.output.bind(s, b.dir)
	return b, err
}

// dir returns the working directory of st.
func (r *run) dir(s *scope, st *step) (string, error) {
	if st.dir == nil {
		return r.a.Dir, nil
	}
	dir, err := st.dir.Bind(s)
	if err != nil || filepath.IsAbs(dir) {
		return dir, err
	}
	return filepath.Join(r.a.Dir, dir), nil
}

// launch runs a bound command of st, or does what it is instead.
func (r *run) launch(ctx context.Context, st *step, b bound) (result, *Failure, error) {
	if b.does != nil {
		return r.do(ctx, st, b)
	}
	stdout, stderr := r.x.stream(), r.x.stream()
	out, err := r.openOutput(ctx, b.output, stdout)
	if err != nil {
		failure, err := r.outputFailure(st, err)
		return notRun, failure, err
	}
	exit, err := r.limited(ctx, st, b, out, stderr)
	written := out.close()
	if err != nil {
		return result{}, nil, err
	}
	res := resultOf(stdout, stderr, exit)
	said, exact := res.shown().stderr, false
	if b.ai && exit.Code > 0 && exit.Code != 126 {
		said, exact = lastWords(res.shown())
	}
	failure := failureOf(st, exit, said)
	if failure != nil {
		failure.Exact = exact
	}
	if b.ai && errors.Is(exit.Start, process.ErrTooLarge) {
		failure.Message = exit.Start.Error() + promptTooLarge
	}
	if failure != nil && ctx.Err() != nil {
		return result{}, nil, context.Cause(ctx)
	}
	if failure == nil && written != nil {
		if failure, err = r.outputFailure(st, written); err != nil {
			return result{}, nil, err
		}
	}
	res, failure = res.captured(st, &stdout.Capture, failure)
	if failure != nil {
		failure.Stdout, failure.Stderr = stdout.shown().Tail(events.MaxTail), stderr.shown().Tail(events.MaxTail)
		res.code, res.failed = failure.ExitCode, true
	}
	return res, failure, nil
}

// limited runs b within the limits of st and of what is around it. Of those the error tells, as it does of a stop and of what keeps
// prodigy itself from running any command.
func (r *run) limited(ctx context.Context, st *step, b bound, stdout *sink, stderr *stream) (process.Exit, error) {
	var exit process.Exit
	var outer bool
	err := r.x.inRoom(ctx, func() error {
		var limit time.Duration
		var err error
		limit, outer = nearest(ctx, st.Timeout)
		exit, err = r.perform(r.stop, b, process.Command{
			Path: b.path, Argv: b.argv, Dir: b.dir, Env: b.env, Input: b.input, Stdout: stdout, Stderr: stderr, Timeout: limit, Grace: r.x.Grace,
			Cleanup: r.a.Limits.Cleanup, Register: r.x.host.Register(), EndAll: b.ai,
		})
		return err
	})
	if errors.Is(exit.Start, process.ErrDir) {
		err = r.dirError()
	}
	if exit.TimedOut && outer {
		r.cutOff(st, stdout.kept.shown(), stderr.shown())
		<-ctx.Done() // in this moment, if not before
		err = context.Cause(ctx)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return exit, err
}

// perform runs c, which is b ready to run, or instead of a shell that would only start a program that program.
func (r *run) perform(ctx context.Context, b bound, c process.Command) (process.Exit, error) {
	p, ok := r.x.direct(b.call, b.env, b.dir)
	if !ok || ctx.Err() != nil {
		return r.x.Run(ctx, c)
	}
	to, ok := redirected(b.redirects, c)
	if !ok {
		return r.x.Run(ctx, c)
	}
	defer to.close()
	instead := to.given(c)
	instead.Path, instead.Argv, instead.Env = p.path, p.argv, p.env
	exit, err := r.x.Run(ctx, instead)
	switch {
	case exit.Start != nil:
		to.close()
		return r.x.Run(ctx, c)
	case err != nil || ctx.Err() != nil:
		return exit, err
	}
	return p.shell.told(exit, instead.Stderr), nil
}

// files writes the private files that b needs and points b to them.
func (r *run) files(b *bound) error {
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

// resultOf returns what a command left.
func resultOf(stdout, stderr *stream, exit process.Exit) result {
	res := result{output: kept(&stdout.Capture), stderr: kept(&stderr.Capture), code: exit.Code, duration: exit.Duration}
	if without := (printed{kept(stdout.shown()), kept(stderr.shown())}); without != res.shown() {
		res.masked = &without
	}
	return res
}

// kept returns what was captured as variables see it.
func kept(c *process.Capture) string { return strings.TrimRight(c.Text(), "\n") }

func templateFailure(st *step, err error) *Failure {
	if err == nil {
		panic("BUG: step " + st.label + " has no command")
	}
	return &Failure{Step: st.label, Failure: retry.Failure{Type: retry.TypeTemplate, Message: err.Error(), ExitCode: -1}}
}

// failureOf returns what is to be said of an exit, or nil when it is a success.
func failureOf(st *step, exit process.Exit, stderr string) *Failure {
	f := &Failure{Step: st.label, Failure: retry.Failure{ExitCode: exit.Code, Signal: exit.Signal, TimedOut: exit.TimedOut}}
	if exit.TimedOut || exit.Signal != "" {
		f.ExitCode = -1
	}
	switch {
	case exit.Start != nil:
		notStarted(f, exit.Start)
	case exit.TimedOut:
		f.Message = "timed out after " + duration.Format(st.Timeout)
	case exit.Signal != "":
		f.Message = "killed by " + exit.Signal
	case exit.Code == 126 && strings.Contains(stderr, "rgument list too long"):
		f.Type, f.Message = retry.TypeTemplate, events.Clip(exitMessage(exit.Code, stderr), events.MaxError-len(tooLarge))+tooLarge
	case exit.Code != 0:
		f.Message = exitMessage(exit.Code, stderr)
	default:
		return nil
	}
	return f
}

// notStarted tells why a command could not be started, with the exit codes that a shell has for it.
func notStarted(f *Failure, why error) {
	f.ExitCode, f.Message = -1, why.Error()
	switch {
	case errors.Is(why, process.ErrNotFound):
		f.Type, f.ExitCode = retry.TypeCommandNotFound, 127
	case errors.Is(why, process.ErrNotExecutable):
		f.Type, f.ExitCode = retry.TypePermission, 126
	case errors.Is(why, process.ErrTooLarge):
		f.Type, f.ExitCode = retry.TypeTemplate, 126
		f.Message += tooLarge
	}
}

// tooLarge says what to do about a value that no program can be given as an argument.
const tooLarge = "; an argument holds 128 KiB at most: write |file for the path of a file that holds the value, or a heredoc"

// promptTooLarge says the same of a prompt.
const promptTooLarge = "; a prompt that is an argument holds 128 KiB at most: write |file for the path of a file that holds the value, " +
	"or let claude read it from its standard input"

// exitMessage adds the last line of stderr that says something.
func exitMessage(code int, stderr string) string {
	message := fmt.Sprintf("exit code %d", code)
	if line := lastLine(stderr); line != "" {
		message += ": " + line
	}
	return events.Clip(message, events.MaxError)
}
