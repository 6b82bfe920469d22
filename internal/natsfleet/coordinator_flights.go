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
	spec   string // name of what the attempt has in common with others
	done   doneFunc
	of     context.Context
	stop   *flightStop          // nil until somebody asks for it
	shown  map[int][2]io.Writer // where its commands print to, by their number
	joined fleet.Joined         // pieces of its next report
	msgs   []jetstream.Msg      // that they were left with the broker in
}

// doneFunc is called with how an attempt has ended.
type doneFunc = func(*agent.Attempt, agent.Outcome, error)

// flightStop ends what is done for a flight.
type flightStop struct {
	ctx    context.Context // ends with the attempt
	cancel context.CancelFunc
	broke  error // that the job is to stop with, which a call of the worker was answered with
}

// stopping returns what ends with the attempt.
func (f *flight) stopping() *flightStop {
	if f.stop == nil {
		ctx, cancel := context.WithCancel(f.of)
		f.stop = &flightStop{ctx: ctx, cancel: cancel}
	}
	return f.stop
}

// cancel ends what is done for the attempt.
func (f *flight) cancel() {
	if f.stop != nil {
		f.stop.cancel()
	}
}
