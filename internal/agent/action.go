package agent

import (
	"context"
	"errors"
	"strings"
	"time"

	"prodigy/internal/duration"
	"prodigy/internal/retry"
)

// do does what a step is that is no command, and with its output what is done with that of a command.
func (r *run) do(ctx context.Context, st *step, b bound) (result, *Failure, error) {
	inner, up := within(ctx, st.Timeout, st.label)
	defer up.cancel()
	res, failure, err := b.does(inner, r, st, b)
	if err != nil && errors.Is(err, up) {
		res, failure, err = notRun, r.timedOut(st.label, st.Timeout), nil
	}
	if err != nil {
		return result{}, nil, err
	}
	kept := r.x.stream()
	out, err := r.openOutput(ctx, b.output, kept)
	if err != nil {
		failure, err := r.outputFailure(st, err)
		return notRun, failure, err
	}
	_, _ = out.Write([]byte(res.output))
	if written := out.close(); written != nil && failure == nil {
		if failure, err = r.outputFailure(st, written); err != nil {
			return result{}, nil, err
		}
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
	label  string
	cancel context.CancelFunc
}

func (u *timeUp) Error() string { return "the time of " + u.label + " is up" }

// within returns ctx with a limit, if there is one, and what its cause is then.
func within(ctx context.Context, limit time.Duration, label string) (context.Context, *timeUp) {
	up := &timeUp{label: label, cancel: func() {}}
	if limit <= 0 {
		return ctx, up
	}
	ctx, up.cancel = context.WithTimeoutCause(ctx, limit, up)
	return ctx, up
}

// timedOut is the failure of a step whose time was up, with what the command that ran then had said.
func (r *run) timedOut(label string, limit time.Duration) *Failure {
	failure := Failure{Step: label, Failure: retry.Failure{TimedOut: true, ExitCode: -1}}
	if r.cut != nil {
		failure.Stdout, failure.Stderr = r.cut.Stdout, r.cut.Stderr
	}
	r.cut = nil
	failure.Message = "timed out after " + duration.Format(limit)
	return &failure
}
