package natsfleet

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// spell is a time in which something lasts that somebody is told of when it has lasted for long. The zero spell has not
// begun.
type spell struct {
	since time.Time
	told  bool
}

// lasts notes that it lasts at a time. It reports once that it has lasted for so long, so that somebody is to be told.
func (s *spell) lasts(now time.Time, long time.Duration) bool {
	s.since = cmp.Or(s.since, now)
	tell := !s.told && now.Sub(s.since) >= long
	s.told = s.told || tell
	return tell
}

// refusals follows whether the broker keeps what it is sent. It does not when its store is full.
type refusals struct {
	spell
	last time.Time // when it did not keep something last
	why  string
	over bool // the run was asked to stop
}

// refusedFor is how long after the last refusal the broker is taken to keep things again: what it has refused is tried
// again more often than that.
const refusedFor = 10 * time.Second

// note takes the error of something that the broker was to keep.
func (r *refusals) note(err error, now time.Time) {
	r.since, r.last = cmp.Or(r.since, now), now
	api, _ := errors.AsType[*jetstream.APIError](err)
	switch {
	case isFull(err):
		r.why = "its storage is full (" + api.Description + ")"
	case notKept(err):
		r.why = "its storage does not respond: the disk is full, the storage was deleted (restart the broker), or " +
			"a cluster has no leader yet"
	default:
		r.why = inWords(err).Error()
	}
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

// isMissing reports whether an error is that the broker does not have what a fleet needs.
func isMissing(err error) bool {
	return isAny(err, jetstream.ErrBucketNotFound, jetstream.ErrStreamNotFound, jetstream.ErrConsumerNotFound)
}
