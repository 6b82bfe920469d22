package natsfleet

import (
	"context"
	"io"

	"github.com/nats-io/nats.go/jetstream"

	"prodigy/internal/agent"
	"prodigy/internal/fleet"
)

// flight is an attempt that is out.
type flight struct {
	*agent.Attempt
	// spec is the name of what the attempt has in common with others, see shared.
	spec string
	done doneFunc
	// of is the context that the attempt was submitted with, and ctx one that ends with the attempt.
	of, ctx context.Context
	cancel  context.CancelFunc
	// broke is the error that a call of the worker was answered with, and that the job is to stop with.
	broke error
	// shown has the streams that its commands print to, by their number.
	shown map[int][2]io.Writer
	// joined has the pieces of its next report that have come, and msgs the messages that they were left with the
	// broker in.
	joined fleet.Joined
	msgs   []jetstream.Msg
}

// doneFunc is called with how an attempt has ended.
type doneFunc = func(*agent.Attempt, agent.Outcome, error)

// newFlight returns an attempt that is submitted with a context.
func newFlight(of context.Context, a *agent.Attempt) *flight {
	f := &flight{Attempt: a, of: of}
	f.ctx, f.cancel = context.WithCancel(of)
	return f
}
