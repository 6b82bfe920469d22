package agent

import (
	"cmp"
	"context"
	"errors"
	"time"

	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/process"
	"prodigy/internal/retry"
)

// execWithTimeout runs b until it ends or a time limit is up: its own, or one around it. The error is for a
// limit around it, a stop, and what keeps prodigy itself from running any command.
func (r *run) execWithTimeout(
	ctx context.Context, st *step, b boundCommand, stdout *sink, stderr *stream,
) (process.Exit, error) {
	var exit process.Exit
	var outer bool
	err := r.x.limiter.do(ctx, func() error {
		var limit time.Duration
		var err error
		limit, outer = effectiveTimeout(ctx, st.Timeout)
		c := process.Command{
			Path: b.path, Argv: b.argv, Dir: b.dir, Env: b.env, Input: b.input, Stdout: stdout, Stderr: stderr,
			Timeout: limit, Grace: r.x.Grace,
			Cleanup: r.a.Limits.Cleanup, Expiry: stdout.watch.begin(), Register: r.x.host.Register(), EndAll: b.ai,
			OOM: r.x.oom,
		}
		if r.x.Simulate != nil {
			exit, err = r.simulate(st, b, c)
			return err
		}
		exit, err = r.x.shell().Run(r.stop, r.x.Run, c, b.program)
		return err
	})
	if errors.Is(exit.Start, process.ErrDir) {
		err = r.dirError()
	}
	if exit.TimedOut && outer {
		r.cut = &Failure{Step: st.label, Failure: retry.Failure{
			TimedOut: true, ExitCode: -1, Stdout: r.tail(b, stdout.kept),
			Stderr: stderr.masked().Tail(events.MaxTail),
		}}
		<-ctx.Done() // at this moment, if not before
		err = context.Cause(ctx)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return exit, err
}

// effectiveTimeout returns the time limit of a command whose own is given (0: none), and whether it is not its
// own but that of ctx.
func effectiveTimeout(ctx context.Context, own time.Duration) (limit time.Duration, outer bool) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return own, false
	}
	left := max(time.Until(deadline), 1)
	if own > 0 && own <= left {
		return own, false
	}
	return left, true
}

func (l *timeLimit) Error() string { return "the time of " + l.of + " is up" }

// withTimeLimit returns ctx with a limit, unless that is 0 or ctx ends before. When the limit is reached, it is the cause
// of the end of the context.
func withTimeLimit(ctx context.Context, limit time.Duration, of string) (context.Context, *timeLimit) {
	l := &timeLimit{of: of, at: time.Now().Add(limit)}
	if outer, ok := ctx.Deadline(); limit <= 0 || ok && outer.Before(l.at) {
		l.cancel = func(error) {}
		return ctx, l
	}
	l.Context, l.cancel = context.WithCancelCause(ctx)
	l.timer = time.AfterFunc(limit, func() { l.cancel(l) })
	context.AfterFunc(l.Context, func() { l.timer.Stop() })
	return l, l
}

// timedOut returns the failure of a step whose time was up, with the output of the command that ran then.
func (r *run) timedOut(label string, limit time.Duration) *Failure {
	failure := cmp.Or(r.cut, &Failure{Failure: retry.Failure{TimedOut: true, ExitCode: -1}})
	r.cut = nil
	failure.Step, failure.Message = label, "timed out after "+duration.Format(limit)
	return failure
}

// Deadline implements context.Context.
func (l *timeLimit) Deadline() (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if outer, ok := l.Context.Deadline(); ok && outer.Before(l.at) {
		return outer, true
	}
	return l.at, true
}

// suspend stops the clock until resume is called.
func (l *timeLimit) suspend() (resume func()) {
	began := time.Now()
	if l.timer == nil || !l.timer.Stop() {
		return func() {} // no limit, or one that was reached
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.at = l.at.Add(time.Since(began))
		if l.Context.Err() == nil {
			l.timer.Reset(time.Until(l.at))
		}
	}
}
