package natsfleet

import (
	"context"
	"io"
	"slices"

	"prodigy/internal/agent"
)

// flight is an attempt that is out.
type flight struct {
	*agent.Attempt
	spec    string // object of what the attempt has in common with others
	done    doneFunc
	of      context.Context
	stop    *flightStop          // nil until somebody asks for it
	shown   map[int][2]io.Writer // where its commands print to, by their number
	objects []string             // of its task and its reports at the broker, which go with it
	unread  *unreadReport        // nil if all that has come could be read
}

// doneFunc is called with how an attempt has ended.
type doneFunc = func(*agent.Attempt, agent.Outcome, error)

// flightStop ends what is done for a flight.
type flightStop struct {
	ctx    context.Context // ends with the attempt
	cancel context.CancelFunc
	broke  error // that the job is to stop with, which a call of the worker was answered with
}

// needs notes an object at the broker that is not needed any more when the attempt has ended.
func (f *flight) needs(object string) {
	if object != "" && !slices.Contains(f.objects, object) {
		f.objects = append(f.objects, object)
	}
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
