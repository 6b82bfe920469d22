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

	"prodigy/internal/fleet"
)

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
	gone := errors.Is(err, nats.ErrNoResponders)
	kv, kvErr := c.js.KeyValue(ctx, locksBucket)
	if kvErr != nil {
		return kvErr
	}
	began, first := time.Now(), uint64(0)
	for {
		e, getErr := kv.Get(ctx, key)
		if errors.Is(getErr, jetstream.ErrKeyNotFound) && err != nil {
			if c.revision, err = kv.Create(ctx, key, c.lockData(0)); errors.Is(err, jetstream.ErrKeyExists) {
				continue
			}
			return err
		}
		if getErr != nil && !errors.Is(getErr, jetstream.ErrKeyNotFound) {
			return getErr
		}
		var held lockEntry
		if getErr == nil {
			if err := json.Unmarshal(e.Value(), &held); err != nil {
				return fmt.Errorf("read the lock of job %s: %w", jobID, err)
			}
		}
		refused := fleet.Refusef("job %s is already running (process %d on %s): stop it there first (prodigy "+
			"stop), or let it finish", jobID, held.PID, held.Host)
		if err == nil || first != 0 && e.Revision() != first {
			return refused
		}
		if held.Sweeps && time.Since(began) < sweepTime {
			if !pause(ctx, 50*time.Millisecond) {
				return context.Cause(ctx)
			}
			continue
		}
		if rest := c.o.Lease - time.Since(began); !gone && held.Owner != "" && rest > 0 {
			if first == 0 {
				c.notify("the coordinator of the job, process %d on %s, is connected but does not respond: "+
					"waiting %s for it", held.PID, held.Host, c.o.Lease)
			}
			first = e.Revision()
			if !pause(ctx, min(rest, 250*time.Millisecond)) {
				return context.Cause(ctx)
			}
			continue
		}
		if c.revision, err = kv.Update(ctx, key, c.lockData(held.Epoch), e.Revision()); isConflict(err) {
			return refused
		}
		return err
	}
}

// lockData returns the entry of this coordinator after one with that epoch. The clock has it grow even after the broker
// has lost its disk.
func (c *coordinator) lockData(before int64) []byte {
	c.epoch = max(before+1, c.epoch, time.Now().Unix())
	return c.lockOf(c.owner, false)
}

// lockOf returns the entry of the lock, with this process.
func (c *coordinator) lockOf(owner string, over bool) []byte {
	host, _ := os.Hostname()
	return encoded(lockEntry{Job: c.jobID, Owner: owner, Host: host, PID: os.Getpid(), Epoch: c.epoch, Over: over})
}

// isConflict reports whether the lock was not written since somebody else has written it meanwhile.
func isConflict(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
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
	rev, err := kv.Update(ctx, c.key, c.lockOf(c.owner, false), c.revision)
	if err == nil {
		c.revision = rev
		return nil
	}
	if !isConflict(err) {
		return err
	}
	e, err := kv.Get(ctx, c.key)
	var held lockEntry
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound): // the broker has lost it
		rev, err = kv.Create(ctx, c.key, c.lockOf(c.owner, false))
		if errors.Is(err, jetstream.ErrKeyExists) {
			return errTaken
		}
	case err != nil:
	case json.Unmarshal(e.Value(), &held) != nil || held.Owner != c.owner:
		return errTaken
	default: // an answer of before was lost
		rev = e.Revision()
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
		s.leave(everyFlight)
	})
	if first {
		c.stop(errTaken)
	}
}
