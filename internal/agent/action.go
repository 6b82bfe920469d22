package agent

import (
	"context"
	"errors"
	"strings"

	"prodigy/internal/duration"
	"prodigy/internal/retry"
)

// do does what a step is that is no command, and with its output what is done with that of a command.
func (r *run) do(ctx context.Context, st *step, b bound) (result, *Failure, error) {
	inner, up := st.within(ctx)
	defer up.cancel()
	res, failure, err := b.does(inner, r, st, b)
	if err != nil && errors.Is(err, up) {
		res, failure, err = notRun, r.timedOut(st), nil
	}
	if err != nil {
		return result{}, nil, err
	}
	kept := r.x.stream()
	out, err := b.output.open(kept)
	if err != nil {
		return notRun, outputFailure(st, err), nil
	}
	_, _ = out.Write([]byte(res.output))
	if written := outputFailure(st, out.close()); failure == nil {
		failure = written
	}
	res.output = strings.TrimRight(res.output, "\n")
	if without := (printed{r.x.Mask.Text(res.output), r.x.Mask.Text(res.stderr)}); without != res.shown() {
		res.masked = &without
	}
	res, failure = res.captured(st, &kept.Capture, failure)
	if failure != nil {
		res.code, res.failed = failure.ExitCode, true
	}
	return res, failure, nil
}

// timeUp is the cause of a context that ends with the time of one step.
type timeUp struct {
	step   *step
	cancel context.CancelFunc
}

func (u *timeUp) Error() string { return "the time of " + u.step.label + " is up" }

// within returns ctx with the limit of st, if it has one, and what its cause is then.
func (st *step) within(ctx context.Context) (context.Context, *timeUp) {
	up := &timeUp{step: st, cancel: func() {}}
	if st.Timeout <= 0 {
		return ctx, up
	}
	ctx, up.cancel = context.WithTimeoutCause(ctx, st.Timeout, up)
	return ctx, up
}

// timedOut is the failure of a step whose time was up, with what the command that ran then had said.
func (r *run) timedOut(st *step) *Failure {
	failure := Failure{Step: st.label, Failure: retry.Failure{TimedOut: true, ExitCode: -1}}
	if r.cut != nil {
		failure.Stdout, failure.Stderr = r.cut.Stdout, r.cut.Stderr
	}
	r.cut = nil
	failure.Message = "timed out after " + duration.Format(st.Timeout)
	return &failure
}
