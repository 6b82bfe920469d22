package natsfleet

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// refusals follows whether the broker keeps what it is sent. It does not when its store is full.
type refusals struct {
	since, last time.Time // of the first and the last time that it did not, if it does not
	why         string
	told        bool
	over        bool // the run was asked to stop
}

// refusedFor is how long after the last refusal the broker is taken to keep things again: what it has refused is tried
// again more often than that.
const refusedFor = 10 * time.Second

// note takes the error of something that the broker was to keep.
func (r *refusals) note(err error, now time.Time) {
	if r.last = now; r.since.IsZero() {
		r.since = now
	}
	r.why = whyNotKept(err)
}

// now reports whether the broker keeps nothing, or not all, at this time.
func (r *refusals) now(now time.Time) bool { return !r.since.IsZero() && now.Sub(r.last) < refusedFor }

// What the server answers when its store or an account has no room. The client has no names for these.
const (
	codeNoRoomForAccount = 10002
	codeNoRoom           = 10023
	codeNoRoomInStore    = 10047
)

// isFull reports whether an error is that the store of the broker or its disk has no room.
func isFull(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (api.ErrorCode == codeNoRoomForAccount || api.ErrorCode == codeNoRoom ||
		api.ErrorCode == codeNoRoomInStore || strings.Contains(api.Description, "no space left"))
}

// notKept reports whether an error is that the broker did not keep something now, and may later.
func notKept(err error) bool {
	return isFull(err) || leaderless(err) || errors.Is(err, jetstream.ErrJetStreamNotEnabled)
}

// whyNotKept says why the broker has not kept something.
func whyNotKept(err error) string {
	api, _ := errors.AsType[*jetstream.APIError](err)
	switch {
	case isFull(err):
		return "its store is full (" + api.Description + ")"
	case notKept(err):
		return "its store does not answer: its disk is full, its store was removed (start the broker again), or a " +
			"cluster has no leader yet"
	}
	return inWords(err).Error()
}

// noteKept notes whether the broker has kept something.
func (c *coordinator) noteKept(err error) {
	c.turn(func(s *jobState) {
		switch {
		case err == nil:
			s.refuses.last = time.Time{}
		case isMissing(err): // it is made again, or the error of that is noted
		case c.life.Err() == nil && c.nc.IsConnected():
			s.refuses.note(err, time.Now())
		}
	})
}

// lookAtStore says that the broker keeps nothing, or does again, and stops the run when that lasts too long.
func (c *coordinator) lookAtStore(now time.Time) {
	var was refusals
	full, tell, stop := false, false, false
	c.turn(func(s *jobState) {
		r := &s.refuses
		was, full = *r, r.now(now)
		since := now.Sub(r.since)
		tell = full && !r.told && since >= shortAbsence
		stop = full && !r.over && c.o.Patience > 0 && since >= c.o.Patience
		if r.told, r.over = r.told || tell, r.over || stop; !full {
			*r = refusals{}
		}
	})
	if tell {
		c.notify("the broker does not keep what it is sent: %s. What needs that waits until it does", was.why)
	}
	if stop {
		c.stop(fmt.Errorf("the broker has not kept what it was sent for %s (--broker-patience): %s", c.o.Patience,
			was.why))
	}
	if !full && was.told {
		c.notify("the broker keeps what it is sent again")
	}
}

// noteKept notes whether the broker has kept something of an attempt, and says so. Coordinators are told as long as it
// does not.
func (w *worker) noteKept(err error) {
	w.turn(func(s *workerState) {
		r, now := &s.refuses, time.Now()
		switch {
		case err != nil && w.nc.IsConnected() && w.life.Err() == nil:
			r.note(err, now)
			if !r.told && now.Sub(r.since) >= absentFor {
				r.told = true
				w.o.Say("the broker does not keep what attempts have made: " + r.why + ". They wait until it does")
			}
		case err == nil && !r.since.IsZero():
			if r.told {
				w.o.Say("the broker keeps what attempts have made again")
			}
			*r = refusals{}
		}
	})
}

// firstLine returns the first of the errors that were joined.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
