package natsfleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"prodigy/internal/check"
	"prodigy/internal/fleet"
)

// sweepTime bounds one sweep of a job. Who wants to begin the job waits for so long.
const sweepTime = 5 * time.Second

// lockEntry says which coordinator has a job. A job in two homes, or on two machines, has one coordinator all the same.
type lockEntry struct {
	Job string `json:"job,omitempty"` // its id
	// Owner is the name of the coordinator. It is empty once the lock was given back.
	Owner string `json:"owner"`
	Host  string `json:"host"`
	PID   int    `json:"pid"`
	// Epoch grows with each owner: workers do not listen to one of before.
	Epoch int64 `json:"epoch"`
	// Sweeps is set if the owner is not a coordinator, but removes what is left of the job.
	Sweeps bool `json:"sweeps,omitempty"`
	// Over is set when nothing of the job is left.
	Over bool `json:"over,omitempty"`
}

// jobLock is the lock of a job, as its coordinator has it.
type jobLock struct {
	// owner is the name of the coordinator, which no other one ever has.
	owner string
	// jobID is set when the job is opened.
	jobID string
	epoch int64
	// locking guards revision, the revision of the entry that this coordinator wrote last.
	locking  sync.Mutex
	revision uint64
}

// errTaken is the reason why a job goes on elsewhere.
var errTaken = errors.New("another coordinator took over the job, because this one was silent for a lease: it " +
	"continues there")

// lock takes the lock of the job, or refuses. One who is gone from the broker has lost it; one who is connected and
// silent, such as a frozen one, when it has not renewed it for a lease.
func (c *coordinator) lock(ctx context.Context, key, jobID string) error {
	_, err := c.nc.Request(ownerSubject(key), nil, 500*time.Millisecond)
	answers, gone := err == nil, errors.Is(err, nats.ErrNoResponders)
	kv, err := c.js.KeyValue(ctx, locksBucket)
	if err != nil {
		return err
	}
	began, first := time.Now(), uint64(0)
	for {
		held, revision, err := readLock(ctx, kv, key)
		if err != nil {
			return fmt.Errorf("read the lock of job %s: %w", jobID, err)
		}
		refused := fleet.Refusef("job %s is already running (process %d on %s): stop it there first (prodigy "+
			"stop), or let it finish", jobID, held.PID, held.Host)
		past := time.Since(began)
		wait := time.Duration(0)
		switch {
		case answers, first != 0 && revision != first:
			return refused
		case held.Sweeps && past < sweepTime:
			wait = 50 * time.Millisecond
		case !gone && held.Owner != "" && past < c.o.Lease:
			if first == 0 {
				c.notify("the coordinator of the job, process %d on %s, is connected but does not respond: "+
					"waiting %s for it", held.PID, held.Host, c.o.Lease)
			}
			first, wait = revision, min(c.o.Lease-past, 250*time.Millisecond)
		}
		if wait == 0 {
			// The clock has the epoch grow even after the broker has lost its disk.
			c.epoch = max(held.Epoch+1, c.epoch, time.Now().Unix())
			c.revision, err = writeLock(ctx, kv, key, c.lockOf(c.owner, false), revision)
			switch {
			case !isConflict(err):
				return err
			case revision > 0:
				return refused
			}
		}
		if !pause(ctx, wait) {
			return context.Cause(ctx)
		}
	}
}

// readLock returns the entry of a job and its revision. The revision is 0 if the job has no entry.
func readLock(ctx context.Context, kv jetstream.KeyValue, key string) (held lockEntry, revision uint64, err error) {
	e, err := kv.Get(ctx, key)
	if err != nil {
		return held, 0, check.Unless(err, jetstream.ErrKeyNotFound)
	}
	err = json.Unmarshal(e.Value(), &held)
	return held, e.Revision(), err
}

// writeLock writes the entry of a job that has a revision, or makes it when that is 0, and returns the new revision.
// With isConflict somebody else has written it meanwhile.
func writeLock(ctx context.Context, kv jetstream.KeyValue, key string, data []byte, revision uint64) (uint64, error) {
	if revision == 0 {
		return kv.Create(ctx, key, data)
	}
	return kv.Update(ctx, key, data, revision)
}

// lockOf returns the entry of the lock, with this process.
func (c *coordinator) lockOf(owner string, over bool) []byte {
	e := newLock(c.jobID, owner, c.epoch)
	e.Over = over
	return encoded(e)
}

// newLock returns an entry with this process.
func newLock(jobID, owner string, epoch int64) lockEntry {
	host, _ := os.Hostname()
	return lockEntry{Job: jobID, Owner: owner, Host: host, PID: os.Getpid(), Epoch: epoch}
}

// isConflict reports whether the lock was not written since somebody else has written it meanwhile.
func isConflict(err error) bool {
	api, answered := errors.AsType[*jetstream.APIError](err)
	return answered && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		errors.Is(err, jetstream.ErrKeyExists)
}

// renewLock says that this coordinator still has the job. The error is errTaken if another one has.
func (c *coordinator) renewLock(ctx context.Context) error {
	c.locking.Lock()
	defer c.locking.Unlock()
	kv, err := c.js.KeyValue(ctx, locksBucket)
	if err != nil {
		return err
	}
	rev, err := writeLock(ctx, kv, c.key, c.lockOf(c.owner, false), c.revision)
	if isConflict(err) {
		var held lockEntry
		held, rev, err = readLock(ctx, kv, c.key)
		switch {
		case err != nil:
		case rev == 0: // the broker has lost it
			rev, err = writeLock(ctx, kv, c.key, c.lockOf(c.owner, false), 0)
			if isConflict(err) {
				return errTaken
			}
		case held.Owner != c.owner: // else an answer of before was lost
			return errTaken
		}
	}
	if err == nil {
		c.revision = rev
	}
	return err
}

// unlock gives the lock back. over says that nothing of the job is left. The entry stays for some days all the same: one
// who was frozen and comes back must see that it is.
func (c *coordinator) unlock(ctx context.Context, over bool) error {
	c.locking.Lock()
	defer c.locking.Unlock()
	kv, err := c.js.KeyValue(ctx, locksBucket)
	if err == nil {
		_, err = kv.Update(ctx, c.key, c.lockOf("", over), c.revision)
	}
	return err
}

// taken ends the part of this coordinator when another one has the job.
func (c *coordinator) taken() {
	first := false
	c.turn(func(s *jobState) {
		if first = !s.gone; !first {
			return
		}
		s.gone, s.ledger.Halted, s.ledger.Detached = true, true, true // also when nothing is out
		s.leave()
	})
	if first {
		c.stop(errTaken)
	}
}
