package natsfleet

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"prodigy/internal/fleet"
)

// errObjectGone is the error about an object that the broker has lost.
var errObjectGone = errors.New("the broker has lost it")

// How long a member of the fleet waits for an object that the broker does not have, and for a broker that cannot say: it may have lost its disk, and is told
// what it had, or its cluster may have no leader yet.
const (
	missingFor = 2 * time.Second
	dumbFor    = 30 * time.Second
)

// missingObject follows since when the broker does not have an object. In a cluster, a broker may not have yet what another one has taken, so an object that is
// not found at once is not lost.
type missingObject struct {
	since time.Time // zero: it was not missing the last time
}

// isGone takes the error of reading the object, and reports whether the object is lost.
func (m *missingObject) isGone(err error, now time.Time) bool {
	switch {
	case !errors.Is(err, jetstream.ErrObjectNotFound) && !errors.Is(err, jetstream.ErrBucketNotFound) && !errors.Is(err, errObjectGone):
		m.since = time.Time{}
	case m.since.IsZero():
		m.since = now
	default:
		return now.Sub(m.since) > missingFor
	}
	return false
}

// await calls get until it has what it asks the broker for.
func (h *brokerConn) await(ctx context.Context, get func(ctx context.Context) error) error {
	began, missing := time.Now(), missingObject{}
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		err := get(ctx)
		if _, local := errors.AsType[*fs.PathError](err); err == nil || local || errors.Is(err, errAltered) || errors.Is(err, errNotSent) {
			return err
		}
		now := time.Now()
		if missing.isGone(err, now) {
			return errObjectGone
		}
		if now.Sub(began) > dumbFor {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// fetchFile writes an object to an empty file, and compares it with what it should be.
func (h *brokerConn) fetchFile(ctx context.Context, object string, want fleet.File, to *os.File) error {
	return h.await(ctx, func(ctx context.Context) error {
		if err := to.Truncate(0); err != nil { // of a part that came before
			return err
		}
		if _, err := to.Seek(0, io.SeekStart); err != nil {
			return err
		}
		return h.getFile(ctx, object, want, to)
	})
}
