package natsfleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"prodigy/internal/agent"
	"prodigy/internal/fleet"
)

// lockEntry says which coordinator has a job. A job in two homes, or on two machines, has one coordinator all the same.
type lockEntry struct {
	Job    string `json:"job,omitempty"` // its id
	Owner  string `json:"owner"`         // empty: it was given back
	Host   string `json:"host"`
	PID    int    `json:"pid"`
	Epoch  int64  `json:"epoch"`            // grows with each owner: workers do not listen to one of before
	Sweeps bool   `json:"sweeps,omitempty"` // the owner is no coordinator, but removes what is left of the job
}

// errTaken is the reason why a job goes on elsewhere.
var errTaken = errors.New("another coordinator has taken the job over, since this one was not heard of for a lease: it goes on there")

// lock takes the lock of the job, or refuses. One who is gone from the broker has lost it; one who is connected and silent, such as a frozen one, when it has
// not renewed it for a lease.
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
			if c.lockRevision, err = kv.Create(ctx, key, c.lockData(0)); errors.Is(err, jetstream.ErrKeyExists) {
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
		refused := fleet.Refusef("job %s is run already, by process %d on %s: stop it there first (prodigy stop), or let it finish", jobID, held.PID, held.Host)
		if err == nil || first != 0 && e.Revision() != first {
			return refused
		}
		if held.Sweeps && time.Since(began) < sweepTime {
			select {
			case <-time.After(50 * time.Millisecond):
				continue
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if rest := c.o.Lease - time.Since(began); !gone && held.Owner != "" && rest > 0 {
			if first == 0 {
				c.notify("the coordinator of the job, process %d on %s, is connected and does not answer: waiting %s for it", held.PID, held.Host, c.o.Lease)
			}
			first = e.Revision()
			select {
			case <-time.After(min(rest, 250*time.Millisecond)):
				continue
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if c.lockRevision, err = kv.Update(ctx, key, c.lockData(held.Epoch), e.Revision()); isConflict(err) {
			return refused
		}
		return err
	}
}

// lockData returns the entry of this coordinator after one with that epoch. The clock has it grow even after the broker has lost its disk.
func (c *coordinator) lockData(before int64) []byte {
	c.epoch = max(before+1, c.epoch, time.Now().Unix())
	return c.lockOf(c.owner)
}

func (c *coordinator) lockOf(owner string) []byte {
	host, _ := os.Hostname()
	return encoded(lockEntry{Job: c.jobID, Owner: owner, Host: host, PID: os.Getpid(), Epoch: c.epoch})
}

func isConflict(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || errors.Is(err, jetstream.ErrKeyExists)
}

// renewLock says that this coordinator still has the job. The error is errTaken if another one has.
func (c *coordinator) renewLock(ctx context.Context) error {
	c.locking.Lock()
	defer c.locking.Unlock()
	kv, err := c.js.KeyValue(ctx, locksBucket)
	if err != nil {
		return err
	}
	rev, err := kv.Update(ctx, c.key, c.lockOf(c.owner), c.lockRevision)
	if err == nil {
		c.lockRevision = rev
		return nil
	}
	if !isConflict(err) {
		return err
	}
	e, err := kv.Get(ctx, c.key)
	var held lockEntry
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound): // the broker has lost it
		rev, err = kv.Create(ctx, c.key, c.lockOf(c.owner))
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
		c.lockRevision = rev
	}
	return err
}

// unlock gives the lock back. The entry stays for some days also when the job is done: one who was frozen and comes back must see that it is.
func (c *coordinator) unlock(ctx context.Context) error {
	c.locking.Lock()
	defer c.locking.Unlock()
	kv, err := c.js.KeyValue(ctx, locksBucket)
	if err == nil {
		_, err = kv.Update(ctx, c.key, c.lockOf(""), c.lockRevision)
	}
	return err
}

// taken ends the part of this coordinator when another one has the job.
func (c *coordinator) taken() {
	c.mu.Lock()
	if c.gone {
		c.mu.Unlock()
		return
	}
	c.gone, c.held, c.detached = true, true, true // also when nothing is out
	c.leave(func(*flight) bool { return true })
	c.mu.Unlock()
	c.abort(errTaken)
}

// leave leaves some of the attempts that are out to the run after this one. It is called with the lock held.
func (c *coordinator) leave(which func(*flight) bool) {
	for token, f := range c.flights {
		if !which(f) {
			continue
		}
		c.dispatcher.Remove(token)
		delete(c.flights, token)
		c.detach(token)
		f.ended()
		f.done(f.attempt(), agent.Outcome{}, agent.ErrDetached)
	}
}

// abort asks the run to stop.
func (c *coordinator) abort(cause error) {
	c.mu.Lock()
	stop := c.stopRun
	c.mu.Unlock()
	stop(inWords(cause))
}

// shortAbsence is how long the broker may be away before somebody is told.
const shortAbsence = 5 * time.Second

// absence follows how long the broker does not answer.
type absence struct {
	since time.Time // zero: it answers
	told  bool
	over  bool // the run was asked to stop
}

// missing notes that the broker does not answer what it was asked at a time, and stops the run when that lasts too
// long. Nobody can tell workers to end what they run, so it is left to the resume at once.
func (a *absence) missing(c *coordinator, asked, now time.Time) {
	if a.since.IsZero() {
		a.since = asked
	}
	away := now.Sub(a.since)
	if !a.told && away >= shortAbsence {
		a.told = true
		c.notify("the broker does not answer: what runs on workers goes on for most of a lease, and nothing new begins")
	}
	if !a.over && c.o.Patience > 0 && away >= c.o.Patience {
		a.over = true
		c.abort(fmt.Errorf("the broker has not answered for %s (--broker-patience)", c.o.Patience))
		c.mu.Lock()
		c.held = true
		c.giveBack("the job is stopping")
		c.leave(func(*flight) bool { return true })
		c.mu.Unlock()
	}
}

// back notes that it does.
func (a *absence) back(c *coordinator) {
	if a.told {
		c.notify("the broker answers again")
	}
	a.since, a.told = time.Time{}, false
}
