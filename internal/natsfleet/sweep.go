package natsfleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"prodigy/internal/check"
	"prodigy/internal/fleet"
)

// A coordinator removes its job from the broker when it is done. What comes to the broker later, such as an object of a
// worker that was cut off, or what could not be removed since the brokers had no leader, is removed by a sweep: that of
// the next coordinator, or of prodigy fleet sweep. What nobody has touched for a month the broker removes.

const (
	filesStream = "OBJ_" + filesStore
	chunks      = "$O." + filesStore + ".C." // subjects of the content of objects, by their id
	metas       = "$O." + filesStore + ".M." // subjects of what objects are, by their name
)

// sweeper removes what jobs have left.
type sweeper struct {
	*brokerConn
	signer *signer
	// own is the key of the job of this coordinator, which is left alone. It is empty if there is none.
	own string
	// ended is that of fleet.JobOptions.
	ended func(jobID string) (seed uint64, ended bool)
	// also has ids and keys of jobs that are removed though they may not have ended.
	also []string
	// all is set if what is not removed is looked at too.
	all bool
}

// Sweep removes what ended jobs have left at the broker.
func (Backend) Sweep(ctx context.Context, a fleet.Address, o fleet.SweepOptions) ([]fleet.Leftovers, error) {
	if err := a.May(fleet.CoordinatorRole); err != nil {
		return nil, err
	}
	h, err := connect(ctx, a, "sweep", responsive, func() {})
	if err != nil {
		return nil, err
	}
	defer h.nc.Close()
	signer, err := newSigner(a.Sign)
	if err != nil {
		return nil, err
	}
	s := &sweeper{brokerConn: h, signer: signer, ended: o.Ended, also: o.Jobs, all: true}
	found, err := s.sweep(ctx, o.Look)
	if isMissing(err) {
		return nil, nil // no job was ever run on it
	}
	return found, err
}

// sweep removes what is left of jobs that have ended, and returns that and what is left of others that no coordinator
// has now. With look nothing is removed.
func (s *sweeper) sweep(ctx context.Context, look bool) ([]fleet.Leftovers, error) {
	all, err := s.leftovers(ctx)
	if err != nil {
		return nil, err
	}
	wait := 500 * time.Millisecond
	if s.all && !look {
		wait = requestTime // somebody asks for it, and is told if it cannot be done
	}
	var unfinished error
	found := make([]fleet.Leftovers, 0, len(all))
	for _, r := range all {
		r.Ended = s.known(r) || r.lock.Over // nobody wants what is left of it
		remove := r.Ended || slices.Contains(s.also, r.JobID) || slices.Contains(s.also, r.Key)
		if !remove && !s.all {
			continue
		}
		_, err := s.nc.Request(ownerSubject(r.Key), nil, wait)
		if !errors.Is(err, nats.ErrNoResponders) { // it has a coordinator, which may be frozen
			if err != nil && remove && wait == requestTime {
				unfinished = fmt.Errorf("cannot find out whether job %s has a coordinator, so its data stays: %w",
					cmp.Or(r.JobID, r.Key), inWords(err))
			}
			continue
		}
		if remove && !look {
			if r.Swept, err = s.remove(ctx, r); err != nil {
				return found, err
			}
			if !r.Swept && s.all {
				unfinished = fmt.Errorf("job %s is in use by another process, so its data stays",
					cmp.Or(r.JobID, r.Key))
			}
		}
		found = append(found, r.Leftovers)
	}
	return found, unfinished
}

// leftover is what is left of a job.
type leftover struct {
	fleet.Leftovers
	lock     lockEntry
	revision uint64 // of the lock, if there is one
}

// leftovers returns what the broker has of other jobs.
func (s *sweeper) leftovers(ctx context.Context) ([]*leftover, error) {
	found := map[string]*leftover{}
	of := func(key string) *leftover {
		if found[key] == nil {
			found[key] = &leftover{Leftovers: fleet.Leftovers{Key: key}}
		}
		return found[key]
	}
	locks, err := s.js.KeyValue(ctx, locksBucket)
	if err != nil {
		return nil, err
	}
	held, err := entriesOf(ctx, locks)
	if err != nil {
		return nil, err
	}
	for _, e := range held { // the locks first: who begins a job now changes its lock
		r := of(e.Key())
		if json.Unmarshal(e.Value(), &r.lock) == nil {
			r.revision, r.Host, r.PID, r.Heard, r.JobID = e.Revision(), r.lock.Host, r.lock.PID, e.Created(), r.lock.Job
		}
	}
	objects, err := s.objects(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		if key, _, ok := strings.Cut(o.Name, "/"); ok {
			r := of(key)
			if r.Objects++; !o.Deleted {
				r.Bytes += o.Size
			}
		}
	}
	out, err := s.js.Stream(ctx, outStream)
	if err != nil {
		return nil, err
	}
	if out.CachedInfo().State.Msgs > 0 {
		info, err := out.Info(ctx, jetstream.WithSubjectFilter("prodigy.out.>"))
		if err != nil {
			return nil, err
		}
		for subject, n := range info.State.Subjects {
			if words := strings.Split(subject, "."); len(words) == 5 {
				of(words[3]).Reports += n
			}
		}
	}
	maps.DeleteFunc(found, func(key string, r *leftover) bool {
		return key == s.own || r.lock.Over && r.Objects == 0 && r.Reports == 0
	})
	return slices.SortedFunc(maps.Values(found), func(a, b *leftover) int { return strings.Compare(a.Key, b.Key) }), nil
}

// entriesOf returns the entries of a bucket.
func entriesOf(ctx context.Context, kv jetstream.KeyValue) (entries []jetstream.KeyValueEntry, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*requestTime) // the client has no other for this
	defer cancel()
	updates, err := kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, err
	}
	defer check.Quietly(updates.Stop)
	for {
		select {
		case e := <-updates.Updates():
			if e == nil { // these are all, unless there was no time for more
				return entries, ctx.Err()
			}
			entries = append(entries, e)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// known reports whether the job is one of this home that has ended.
func (s *sweeper) known(r *leftover) bool {
	if s.ended == nil {
		return false
	}
	id := r.JobID
	if id == "" { // the broker has lost its disk since, and with it what names the job
		id = r.Key[:max(0, strings.LastIndexByte(r.Key, '-'))]
	}
	seed, ended := s.ended(id)
	if !ended || keyOf(id, seed) != r.Key {
		return false
	}
	r.JobID = id
	return true
}

// remove removes all of a job, while it has its lock. It reports false if somebody else has it.
func (s *sweeper) remove(ctx context.Context, r *leftover) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	locks, err := s.js.KeyValue(ctx, locksBucket)
	if err != nil {
		return false, err
	}
	mine := newLock(r.JobID, newInstance(), r.lock.Epoch)
	mine.Sweeps = true
	revision, err := writeLock(ctx, locks, r.Key, encoded(mine), r.revision)
	if isConflict(err) {
		return false, nil
	}
	if err == nil {
		err = s.clear(ctx, r.Key)
	}
	gone := fleet.Job{V: fleet.Protocol, ID: r.JobID, Epoch: r.lock.Epoch, Over: true}
	err = errors.Join(err, s.nc.Publish(jobsSubject+r.Key, encoded(s.signer.signJob(r.Key, gone))))
	mine.Owner, mine.Sweeps, mine.Over = "", false, err == nil
	if _, e := locks.Update(ctx, r.Key, encoded(mine), revision); e != nil && !isConflict(e) {
		err = errors.Join(err, e)
	}
	return err == nil, err
}

// clear removes a job from the broker.
func (h *brokerConn) clear(ctx context.Context, key string) error {
	err := check.Unless(h.js.DeleteConsumer(ctx, outStream, key), jetstream.ErrConsumerNotFound)
	if stream, e := h.js.Stream(ctx, outStream); e == nil {
		err = errors.Join(err, stream.Purge(ctx, jetstream.WithPurgeSubject("prodigy.out.*."+key+".>")))
	}
	objects, e := h.objects(ctx)
	err = errors.Join(err, e)
	for _, o := range objects {
		if strings.HasPrefix(o.Name, key+"/") {
			err = errors.Join(err, h.erase(ctx, o))
		}
	}
	return err
}
