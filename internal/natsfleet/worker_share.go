package natsfleet

import (
	"slices"
	"time"
)

// share is the part of the slots of a worker that a job has.
type share struct {
	slots int           // that it has or is offered, as it was last counted
	used  time.Duration // for how long it has had slots, all of them added up
	wants int           // how many it had when it left an offer unused; less than 0: it takes all that it is offered
}

// countShares brings the shares of the jobs up to date.
func (s *workerState) countShares(now time.Time) {
	since := max(0, now.Sub(s.counted))
	s.counted = now
	for _, j := range s.jobs {
		j.slots = int(j.credit - j.got)
	}
	for _, h := range s.held {
		if h.slot > 0 {
			h.job.slots++
			h.job.used += since
		}
	}
	for _, h := range s.queue {
		h.job.slots++
	}
}

// declined notes that a job has left an offer unused: it wants no more slots than it has, until it takes more. It is called with the lock held, after the
// shares were counted.
func (j *workerJob) declined() { j.wants = j.slots - int(j.credit-j.got) }

// satisfied reports whether a job has as many slots as it wants.
func (j *workerJob) satisfied() bool { return j.wants >= 0 && j.slots >= j.wants }

// assigned notes that a job has been given an attempt. When that is more than it wanted, it wants all again, and is owed nothing for the time before. It is
// called with the lock held, before the attempt is entered.
func (s *workerState) assigned(j *workerJob) {
	if j.wants < 0 {
		return
	}
	has := 1
	for _, h := range s.held {
		if h.job == j && (h.slot > 0 || slices.Contains(s.queue, h)) {
			has++
		}
	}
	if has > j.wants {
		j.wants = -1
		j.used = max(j.used, s.leastUsed(j))
	}
}

// leastUsed returns the least time that another job that wants slots has had some, or 0 if there is none.
func (s *workerState) leastUsed(but *workerJob) time.Duration {
	least, found := time.Duration(0), false
	for _, j := range s.jobs {
		if j != but && !j.satisfied() && (!found || j.used < least) {
			least, found = j.used, true
		}
	}
	return least
}

// nextOf returns the job that a slot is offered to: of those that want one, the job that has the fewest, and of these the one that has had slots for the
// shortest time. A job that has begun first, or has more or longer attempts, takes nothing from the others this way. Jobs that have left an offer unused
// are asked in turn with the others whether they want more by now.
func (s *workerState) nextOf(open []*workerJob) *workerJob {
	next := open[s.turn%len(open)]
	s.turn++
	if next.satisfied() {
		return next
	}
	for _, j := range open {
		if !j.satisfied() && (j.slots < next.slots || j.slots == next.slots && j.used < next.used) {
			next = j
		}
	}
	return next
}
