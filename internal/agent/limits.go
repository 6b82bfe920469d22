package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/process"
	"prodigy/internal/retry"
)

// errTimeUp ends the steps of an attempt whose time is up. It is a failure, not a stop.
var errTimeUp = errors.New("the time is up")

// inTime runs the steps of the attempt within its limit, if it has one.
func (r *run) inTime(ctx context.Context, s *scope) (ended, error) {
	limit := r.a.Limits.Agent
	if limit <= 0 {
		return r.all(ctx, s)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTimeUp)
	defer cancel()
	end, err := r.all(ctx, s)
	if !errors.Is(err, errTimeUp) {
		return end, err
	}
	failure := &Failure{Step: r.at, Failure: retry.Failure{TimedOut: true, ExitCode: -1}}
	if r.cut != nil {
		failure = r.cut
	}
	failure.Type = retry.TypeTimeout
	failure.Message = fmt.Sprintf("the agent timed out after %s", duration.Format(limit))
	if r.a.Phase != phaseMap {
		failure.Step = "" // there is no record of its failure
		failure.Message = fmt.Sprintf("the %s phase timed out after %s, in step %s", r.a.Phase, duration.Format(limit), r.at)
	}
	return ended{failure: failure}, nil
}

// wantsHandler tells whether the handler of the attempt is asked about a failure.
func (r *run) wantsHandler(f *Failure) bool {
	return f != nil && len(r.plan.handler) > 0 && !(f.TimedOut && r.a.Limits.Decided)
}

// nearest returns the limit of a command that may take own at most (0: any time), and whether that is not its own but one
// around it, which ctx has.
func nearest(ctx context.Context, own time.Duration) (limit time.Duration, outer bool) {
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

// cutOff keeps what a command had said that was ended by a limit around it.
func (r *run) cutOff(st *step, stdout, stderr *process.Capture) {
	r.cut = &Failure{Step: st.label, Failure: retry.Failure{
		TimedOut: true, ExitCode: -1, Stdout: stdout.Tail(events.MaxTail), Stderr: stderr.Tail(events.MaxTail),
	}}
}
