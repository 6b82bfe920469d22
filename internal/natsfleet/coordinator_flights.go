package natsfleet

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/events"
)

// flight is an attempt that is out. There may be tens of thousands, so it holds only what the attempt does not share
// with others of the job, and attempt makes the rest again.
type flight struct {
	spec    *sharedSpec
	done    doneFunc
	of      context.Context
	stop    *flightStop          // nil: nobody has asked for a context of it
	more    *rareParts           // nil: the attempt has none of them
	shown   map[int][2]io.Writer // where its commands print to, by their number
	objects []string             // of its task and its reports at the broker, which go with it
	token   int64
	id      string // of the item
	item    json.RawMessage
	index   int   // of the item
	total   int   // of items
	try     int32 // number of the attempt
	slot    int32
	unread  *unreadReport // nil: all that has come could be read
}

// doneFunc is called with how an attempt has ended.
type doneFunc = func(*agent.Attempt, agent.Outcome, error)

// sharedSpec is what attempts have in common, and the name that the broker has it by.
type sharedSpec struct {
	name     string
	template agent.Attempt
}

// flightStop ends what is done for a flight.
type flightStop struct {
	ctx    context.Context // ends with the attempt
	cancel context.CancelFunc
	broke  error // that the job is to stop with, which a call of the worker was answered with
}

// rareParts are what few attempts have.
type rareParts struct {
	base, resolve, branch string
	trace                 string
	produces              string // with a NUL before each
	retrying              *events.StepRetrying
	again                 *agent.Again
	due                   time.Time
	session               *events.AISessionStarted
	ranOn                 string
	adopted, lost         bool
}

// newFlight returns the flight of an attempt with a spec.
func newFlight(ctx context.Context, a *agent.Attempt, s *sharedSpec, done doneFunc) *flight {
	f := &flight{
		spec: s, done: done, of: ctx, token: a.Token, id: a.ItemID, item: a.Item, index: a.ItemIndex,
		total: a.ItemTotal,
		try:   int32(a.Number), slot: int32(a.Worker), //nolint:gosec // both are small
	}
	var produces strings.Builder
	for _, path := range a.Produces {
		produces.WriteString("\x00" + path)
	}
	r := rareParts{
		a.Base, a.Resolve, a.Branch, a.Trace, produces.String(), a.Retrying, a.Again, a.Due, a.Session,
		a.RanOn, a.Adopted, a.Lost,
	}
	if r != (rareParts{}) {
		f.more = &r
	}
	return f
}

// attempt returns the attempt as it was submitted.
func (f *flight) attempt() *agent.Attempt {
	a := f.spec.template
	a.Token, a.ItemID, a.Item, a.ItemIndex, a.ItemTotal = f.token, f.id, f.item, f.index, f.total
	a.Number, a.Worker = int(f.try), int(f.slot)
	a.ID, a.CorrelationID = f.attemptID(), a.JobID+"/"+f.id
	a.Produces = nil
	if m := f.more; m != nil {
		a.Base, a.Resolve, a.Branch, a.Trace = m.base, m.resolve, m.branch, m.trace
		if m.produces != "" {
			a.Produces = strings.Split(m.produces[1:], "\x00")
		}
		a.Retrying, a.Again, a.Due, a.Session = m.retrying, m.again, m.due, m.session
		a.RanOn, a.Adopted, a.Lost = m.ranOn, m.adopted, m.lost
	}
	return &a
}

func (f *flight) attemptID() string {
	return f.spec.template.JobID + "/" + f.id + "/" + strconv.Itoa(int(f.try))
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
