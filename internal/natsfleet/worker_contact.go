package natsfleet

import (
	"cmp"
	"fmt"
	"time"

	"prodigy/internal/fleet"
	"prodigy/internal/process"
)

// contact is what a worker knows of its contact with the broker, and of its watcher, which kills what runs if it has
// not heard of this process in time.
type contact struct {
	// proof is when the broker last proved that it hears this worker.
	proof time.Time
	// guarded is when the watcher kills. It is zero if it does not.
	guarded time.Time
	// lastTurn is when the loop last came round, and stalled when that last took long. It is zero if it never did.
	lastTurn, stalled time.Time
	// stood is how long the loop took, if it took long and that was not said yet.
	stood time.Duration
	// killed is how many attempts were killed for lack of contact, and not said yet.
	killed int
}

var errNoContact = fmt.Errorf("the worker lost contact with the broker: %w", process.ErrKill)

// shortestLease returns the shortest lease of the jobs that this worker takes part in: contact with the broker is
// proven often enough for all of them.
func (s *workerState) shortestLease() time.Duration {
	lease := s.heldLease()
	for _, j := range s.jobs {
		if j.refuses == "" {
			lease = shorterLease(lease, j.Lease)
		}
	}
	return cmp.Or(lease, fleet.DefaultLease)
}

// runningLease returns the shortest lease of what this worker runs, or is about to. Without contact for most of that it
// ends all of it; what other jobs say their leases are must not end it.
func (s *workerState) runningLease() time.Duration { return cmp.Or(s.heldLease(), s.shortestLease()) }

// heldLease returns the shortest lease of the attempts that have not ended, 0 if there are none.
func (s *workerState) heldLease() (lease time.Duration) {
	for _, h := range s.held {
		if !h.ended {
			lease = shorterLease(lease, h.job.Lease)
		}
	}
	return lease
}

// shorterLease returns the shorter of two leases. One of 0 is none, and one that is shorter than a lease may be does
// not count.
func shorterLease(lease, other time.Duration) time.Duration {
	if other < fleet.LeastHere || lease > 0 && lease < other {
		return lease
	}
	return other
}

// outOfContact reports whether the leases of what is held may be over soon, so that others may begin it.
func (s *workerState) outOfContact(now time.Time) bool {
	silent := process.Elapsed(s.proof, now)
	// no lease is shorter, and to look for the shortest takes time
	return silent > fleet.LeastHere*5/6 && silent > s.runningLease()*5/6
}

// proofTooOld reports whether what arrives may have been on the way for so long that others have it by now.
func (s *workerState) proofTooOld(now time.Time) bool {
	return process.Elapsed(s.proof, now) > s.shortestLease()/2
}

// killAll fences off all that is held, and kills what has not ended.
func (s *workerState) killAll(now time.Time) {
	for _, h := range s.held {
		if h.fenced {
			continue
		}
		s.fenceOff(h, now)
		if !h.ended {
			h.end(errNoContact)
		}
	}
}

// fenceOff notes that an attempt was killed for lack of contact, or may have been.
func (s *workerState) fenceOff(h *heldAttempt, now time.Time) {
	if h.fenced {
		return
	}
	// It is cut if the loop has come round in time for as long as contact may have been missing.
	h.fenced, h.cut = true, now.Sub(s.lastTurn) <= s.mostTurn() &&
		(s.stalled.IsZero() || now.Sub(s.stalled) > s.runningLease())
	if h.cancel != nil && !h.ended {
		s.killed++
	}
	s.freed()
}

// watcherEarly is how long before its time the watcher may kill, by this clock.
const watcherEarly = 200 * time.Millisecond

// fencedOff reports whether this worker, or its watcher, has killed an attempt for lack of contact, or may have:
// signaled says that something has.
func (s *workerState) fencedOff(h *heldAttempt, signaled bool) bool {
	now := time.Now()
	if s.outOfContact(now) || s.frozen(now) || signaled && s.frozen(now.Add(watcherEarly)) {
		s.fenceOff(h, now)
	}
	return h.fenced
}

// noteTurn notes that the loop has come round. When that took long, this process had no processor, or none to spare:
// what it runs may be why.
func (s *workerState) noteTurn(now time.Time) {
	last, most := cmp.Or(s.lastTurn, now), s.mostTurn()
	if now.Sub(last) > most {
		s.stalled = now
	}
	if stood := process.Elapsed(last, now); stood > most {
		s.stood = max(s.stood, stood)
	}
	s.lastTurn = now
}

// mostTurn is how long the loop takes at most that comes round in time, which is four times a second.
func (s *workerState) mostTurn() time.Duration { return max(time.Second, s.runningLease()/4) }

// afterFreeze is how long nothing begins after this process was frozen.
const afterFreeze = 2 * time.Second

// frozen reports whether this process has been silent for so long that its watcher has killed what it ran.
func (s *workerState) frozen(now time.Time) bool {
	return !s.guarded.IsZero() && process.Elapsed(s.guarded, now) > 0
}

// noteKept notes whether the broker has kept something of an attempt, and says so. Coordinators are told as long as it
// does not.
func (w *worker) noteKept(err error) {
	w.turn(func(s *workerState) {
		r, now := &s.refuses, time.Now()
		switch {
		case err != nil && w.nc.IsConnected() && w.life.Err() == nil:
			r.note(err, now)
			if r.lasts(now, absentFor) {
				w.say("the broker cannot store results: %s. Waiting for it to recover", r.why)
			}
		case err == nil && !r.since.IsZero():
			if r.told {
				w.say("the broker stores results again")
			}
			*r = refusals{}
		}
	})
}
