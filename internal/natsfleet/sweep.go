package natsfleet

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"prodigy/internal/fleet"
)

// A coordinator removes its job from the broker when it is done. What comes to the broker later, such as an object of a
// worker that was cut off, or what could not be removed since the brokers had no leader, is removed by a sweep: that of
// the next coordinator, or of prodigy fleet sweep.

const (
	filesStream = "OBJ_" + filesStore
	chunks      = "$O." + filesStore + ".C." // subjects of the content of objects, by their id
	metas       = "$O." + filesStore + ".M." // subjects of what objects are, by their name

	// sweepTime bounds one sweep of a job. Who wants to begin the job waits for so long.
	sweepTime = 5 * time.Second

	// abandoned is how old things are that nobody will come back for.
	abandoned = lockKept

	// partKept is how long a part of an object is kept that nobody has finished.
	partKept = 24 * time.Hour

	// markersKept is how long a worker may be away and still learn that a job is gone, and mostMarkers how many such
	// jobs there may be for all that.
	markersKept = time.Hour
	mostMarkers = 256
)

// sweeper removes what jobs have left.
type sweeper struct {
	*brokerConn
	own   string                                       // key of the job of this coordinator, if there is one
	ended func(jobID string) (seed uint64, ended bool) // see fleet.JobOptions
	// ids and keys of jobs that are removed though they may not have ended
	also []string
	all  bool      // what is not removed is looked at too
	now  time.Time // by the clock of the broker, if somebody knows
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
	s := &sweeper{brokerConn: h, ended: o.Ended, also: o.Jobs, all: true}
	found, err := s.sweep(ctx, o.Look)
	if errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
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
	found := make([]fleet.Leftovers, 0, len(all))
	for _, r := range all {
		r.Ended = s.over(r)
		remove := r.Ended || slices.Contains(s.also, r.JobID) || slices.Contains(s.also, r.Key)
		if !remove && !s.all {
			continue
		}
		_, err := s.nc.Request(ownerSubject(r.Key), nil, 500*time.Millisecond)
		if !errors.Is(err, nats.ErrNoResponders) {
			continue // it has a coordinator, which may be frozen
		}
		if remove && !look {
			if r.Swept, err = s.remove(ctx, r); err != nil {
				return found, err
			}
		}
		found = append(found, r.Leftovers)
	}
	if look {
		return found, nil
	}
	return found, errors.Join(s.sweepParts(ctx), s.sweepMarkers(ctx))
}

// leftover is what is left of a job.
type leftover struct {
	fleet.Leftovers
	entry    bool // workers may run it
	lock     lockEntry
	revision uint64    // of the lock, if there is one
	newest   time.Time // of all that there is
}

// leftovers returns what the broker has of other jobs.
func (s *sweeper) leftovers(ctx context.Context) ([]*leftover, error) {
	found := map[string]*leftover{}
	of := func(key string, at time.Time) *leftover {
		r := found[key]
		if r == nil {
			r = &leftover{Leftovers: fleet.Leftovers{Key: key}}
			found[key] = r
		}
		if at.After(r.newest) {
			r.newest = at
		}
		return r
	}
	objects, err := s.objects(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		if key, _, ok := strings.Cut(o.Name, "/"); ok {
			r := of(key, o.ModTime)
			if r.Objects++; !o.Deleted {
				r.Bytes += o.Size
			}
		}
	}
	out, err := s.js.Stream(ctx, outStream)
	if err != nil {
		return nil, err
	}
	if state := out.CachedInfo().State; state.Msgs > 0 {
		info, err := out.Info(ctx, jetstream.WithSubjectFilter("prodigy.out.>"))
		if err != nil {
			return nil, err
		}
		for subject, n := range info.State.Subjects {
			if words := strings.Split(subject, "."); len(words) == 5 {
				of(words[3], state.LastTime).Reports += n
			}
		}
	}
	kv, err := s.js.KeyValue(ctx, jobsBucket)
	if err != nil {
		return nil, err
	}
	keys, err := keysOf(ctx, kv)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		of(key, time.Time{})
	}
	delete(found, s.own)
	locks, err := s.js.KeyValue(ctx, locksBucket)
	if err != nil {
		return nil, err
	}
	if status, err := locks.Status(ctx); err == nil {
		if b, ok := status.(*jetstream.KeyValueBucketStatus); ok {
			s.now = b.StreamInfo().State.LastTime
		}
	}
	var all []*leftover
	for key, r := range found {
		// The lock first: who begins the job now changes it.
		e, err := locks.Get(ctx, key)
		if err == nil && json.Unmarshal(e.Value(), &r.lock) == nil {
			r.revision, r.Host, r.PID, r.Heard, r.JobID = e.Revision(), r.lock.Host, r.lock.PID, e.Created(), r.lock.Job
			of(key, e.Created())
		} else if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
			return nil, err
		}
		var j fleet.Job
		e, err = kv.Get(ctx, key)
		if err == nil && json.Unmarshal(e.Value(), &j) == nil {
			r.entry, r.JobID = true, j.ID
			of(key, e.Created())
		} else if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
			return nil, err
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *leftover) int { return strings.Compare(a.Key, b.Key) })
	return all, nil
}

// over reports whether nobody wants what is left of a job that has no coordinator: it has ended, or its last
// coordinator has removed its entry and given back its lock.
func (s *sweeper) over(r *leftover) bool {
	switch {
	case s.known(r):
		return true
	case r.entry: // it can be resumed
		return false
	}
	return r.revision > 0 && r.lock.Owner == "" || !s.now.IsZero() && s.now.Sub(r.newest) > abandoned
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
	host, _ := os.Hostname()
	mine := lockEntry{
		Job: r.JobID, Owner: newInstance(), Host: host, PID: os.Getpid(), Epoch: r.lock.Epoch,
		Sweeps: true,
	}
	revision := r.revision
	if revision == 0 {
		revision, err = locks.Create(ctx, r.Key, encoded(mine))
	} else {
		revision, err = locks.Update(ctx, r.Key, encoded(mine), revision)
	}
	if isConflict(err) {
		return false, nil
	}
	if err == nil {
		err = s.clear(ctx, r.Key)
	}
	mine.Owner, mine.Sweeps = "", false
	if _, e := locks.Update(ctx, r.Key, encoded(mine), revision); e != nil && !isConflict(e) {
		err = errors.Join(err, e)
	}
	return err == nil, err
}

// sweepParts removes the content of objects that nobody has finished, such as a worker that was killed.
func (s *sweeper) sweepParts(ctx context.Context) error {
	stream, err := s.js.Stream(ctx, filesStream)
	if err != nil {
		return err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(chunks+">"))
	if err != nil {
		return err
	}
	objects, err := s.objects(ctx) // after the content: what is finished meanwhile is among them
	if err != nil {
		return err
	}
	for _, o := range objects {
		delete(info.State.Subjects, chunks+o.NUID)
	}
	for subject := range info.State.Subjects {
		last, err := stream.GetLastMsgForSubject(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && s.now.Sub(last.Time) < partKept {
			continue
		}
		if err == nil {
			err = stream.Purge(ctx, jetstream.WithPurgeSubject(subject))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sweepMarkers removes what the broker keeps of removed jobs for workers that were away.
func (s *sweeper) sweepMarkers(ctx context.Context) error {
	kv, err := s.js.KeyValue(ctx, jobsBucket)
	if err != nil {
		return err
	}
	status, err := kv.Status(ctx)
	if err != nil || status.Values() < mostMarkers {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*requestTime) // it has no other
	defer cancel()
	return kv.PurgeDeletes(ctx, jetstream.DeleteMarkersOlderThan(markersKept))
}

// keysOf returns the keys of the entries of a bucket. As a watcher, the list is asked for with no other time limit than
// that of ctx.
func keysOf(ctx context.Context, kv jetstream.KeyValue) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*requestTime)
	defer cancel()
	keys, err := kv.Keys(ctx)
	if ctx.Err() != nil { // it may have some of them only
		return nil, ctx.Err()
	}
	if errors.Is(err, jetstream.ErrNoKeysFound) {
		return nil, nil
	}
	return keys, err
}

// clear removes a job from the broker.
func (h *brokerConn) clear(ctx context.Context, key string) error {
	kv, err := h.js.KeyValue(ctx, jobsBucket)
	if err == nil {
		err = kv.Purge(ctx, key)
	}
	if e := h.js.DeleteConsumer(ctx, outStream, key); !errors.Is(e, jetstream.ErrConsumerNotFound) {
		err = errors.Join(err, e)
	}
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
