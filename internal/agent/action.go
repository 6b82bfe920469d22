package agent

import (
	"context"
	"strings"

	"prodigy/internal/events"
	"prodigy/internal/process"
)

// do does what a step is that is no command, and with its output what is done with that of a command.
func (r *run) do(ctx context.Context, st *step, b bound) (result, *Failure, error) {
	res, failure, err := b.does(ctx, r, st, b)
	if err != nil {
		return result{}, nil, err
	}
	var kept process.Capture
	out, err := b.output.open(&kept)
	if err != nil {
		return notRun, outputFailure(st, err), nil
	}
	_, _ = out.Write([]byte(res.output))
	if written := outputFailure(st, out.close()); failure == nil {
		failure = written
	}
	res.output = strings.TrimRight(res.output, "\n")
	res, failure = res.captured(st, &kept, failure)
	if failure != nil {
		failure.Stdout, failure.Stderr = kept.Tail(events.MaxTail), events.Clip(res.stderr, events.MaxTail)
		res.code, res.failed = failure.ExitCode, true
	}
	return res, failure, nil
}
