package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/events"
)

// InFlight returns the running attempts, the longest first.
func (j *Job) InFlight() []Attempt {
	list := make([]Attempt, 0, len(j.running))
	for _, a := range j.running {
		shown := *a
		shown.Printed, shown.Held = j.printed[a.ItemID].text, j.paused(a)
		list = append(list, shown)
	}
	slices.SortFunc(list, func(a, b Attempt) int {
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Number, b.Number))
	})
	return list
}

// Attempt returns the running attempt at the item with this index. It reports false if none runs.
func (j *Job) Attempt(index int) (Attempt, bool) {
	if a := j.running[index]; a != nil {
		return *a, true
	}
	return Attempt{}, false
}

// AtWork returns the number of attempts that have begun and not ended, also of those that wait.
func (j *Job) AtWork() int { return len(j.running) }

// Where says where an attempt runs on a fleet, as in "worker-3 slot 2 on host a"; empty if it runs here, or that is
// not known.
func (a Attempt) Where() string {
	if a.Node == "" {
		return ""
	}
	text := fmt.Sprintf("%s slot %d", a.Node, a.Slot)
	if a.Host != "" {
		text += " on host " + a.Host
	}
	return text
}

// PlacedWithin is how soon after its start it is known of an attempt which worker of a fleet runs it.
const PlacedWithin = time.Second

// AwaitsWorker reports whether an attempt was given to a fleet, and no worker runs it yet.
func (a Attempt) AwaitsWorker(now time.Time) bool {
	return a.Fleet && a.Node == "" && a.Step == "" && a.Due.IsZero() && now.Sub(a.Began) > PlacedWithin
}

// AwaitWorkers returns the number of attempts that no worker of the fleet runs yet.
func (j *Job) AwaitWorkers(now time.Time) int {
	n := 0
	for _, a := range j.running {
		if a.AwaitsWorker(now) {
			n++
		}
	}
	return n
}

// LacksWorkers reports whether nothing runs before a worker of the fleet takes part.
func (j *Job) LacksWorkers(now time.Time) bool {
	return j.Running(now) == 0 && (j.AwaitWorkers(now) > 0 || j.OnFleet && j.Workers == 0)
}

// Running returns the number of running attempts. Attempts that wait for a worker or for the next try of a
// step do not count, nor do those that wait for a slot afterwards: the log does not say which those are, but
// no more can run than there are slots.
func (j *Job) Running(now time.Time) int {
	parked, _ := j.parked(now)
	n := len(j.running) - parked - j.AwaitWorkers(now)
	if slots := max(j.MaxParallel, j.slots); slots > 0 {
		n = min(n, slots)
	}
	return n
}

// Retrying returns the number of items that wait for another attempt.
func (j *Job) Retrying() int { return len(j.waiting) }

// Slots returns how many attempts may run at once; 0 while that is not known.
func (j *Job) Slots() int {
	if j.Limit != nil {
		return j.Limit.Limit
	}
	return j.MaxParallel
}

// RunningOf says how many attempts run, and of how many that may, as in "3 of 4".
func (j *Job) RunningOf(now time.Time) string {
	text := strconv.Itoa(j.Running(now))
	if slots := j.Slots(); slots > 0 && !j.OnFleet { // else FleetSlots says it
		text += fmt.Sprintf(" of %d", slots)
	}
	return text
}

// Waiting returns the number of items that wait for another attempt, for the next try of a step, or for a
// slot afterwards.
func (j *Job) Waiting(now time.Time) int {
	return len(j.waiting) + len(j.running) - j.AwaitWorkers(now) - j.Running(now)
}

// paused reports whether an attempt waits until the job is continued, since the next try of its step has come
// due while it was paused.
func (j *Job) paused(a *Attempt) bool {
	h := j.Hold()
	return h != nil && !a.Due.IsZero() && !a.Due.Before(h.Since)
}

// NextRetry returns when the first waiting item is due; the zero time if none waits, or the job is paused.
func (j *Job) NextRetry(now time.Time) time.Time {
	if j.Hold() != nil {
		return time.Time{}
	}
	_, first := j.parked(now)
	for _, it := range j.waiting {
		if first.IsZero() || it.due.Before(first) {
			first = it.due
		}
	}
	return first
}

// parked returns the number of attempts that wait for the next try of a step, and when the first is due.
func (j *Job) parked(now time.Time) (n int, first time.Time) {
	for _, a := range j.running {
		if !a.Due.After(now) && !j.paused(a) {
			continue
		}
		if n++; first.IsZero() || a.Due.Before(first) {
			first = a.Due
		}
	}
	return n, first
}

// Merging returns the number of items whose work waits to be merged.
func (j *Job) Merging() int { return len(j.merging) }

// LongestMerging returns how long the first of them has waited.
func (j *Job) LongestMerging(now time.Time) (longest time.Duration) {
	for _, q := range j.merging {
		longest = max(longest, now.Sub(q.Since))
	}
	return longest
}

// ToGo returns the number of known items without an outcome.
func (j *Job) ToGo() int { return max(j.Total-j.Counts.Finished(), 0) }

// FleetSlots says how many slots the workers of a fleet have, or nothing if the job has another number of them.
func (j *Job) FleetSlots() string {
	if !j.OnFleet {
		return ""
	}
	return check.Counted(j.MaxParallel, "slot") + " on " + check.Counted(j.Workers, "worker")
}

// Held returns how many items a breaker keeps waiting.
func (j *Job) Held(b Breaker, now time.Time) int {
	if b.Key != "" {
		return 0 // nobody has told yet which keys the items have that did not start
	}
	if b.Scope == events.WorkflowScope {
		return max(j.ToGo()-j.Running(now)-j.AwaitWorkers(now), 0)
	}
	n := 0
	for _, a := range j.running {
		if a.Step == b.Scope && a.Due.After(now) {
			n++
		}
	}
	return n
}

// Breaker returns one breaker that has opened. It reports false if nothing is known of it.
func (j *Job) Breaker(scope, key string) (Breaker, bool) {
	b := j.breakers[breakerID{scope, key}]
	if b == nil {
		return Breaker{}, false
	}
	return *b, true
}

// Breakers returns the breakers that are not closed, by scope and key.
func (j *Job) Breakers() []Breaker {
	var list []Breaker
	for _, b := range j.breakers {
		if b.State != Closed {
			list = append(list, *b)
		}
	}
	slices.SortFunc(list, func(a, b Breaker) int {
		return cmp.Or(strings.Compare(a.Scope, b.Scope), strings.Compare(a.Key, b.Key))
	})
	return list
}

// dearestKept is the number of dearest items that are told.
const dearestKept = 10

// Dearest returns the items whose agents have cost most, the dearest first.
func (j *Job) Dearest() []ItemCost {
	list := make([]ItemCost, 0, len(j.costs))
	for _, c := range j.costs {
		if c.Cost > 0 {
			list = append(list, *c)
		}
	}
	slices.SortFunc(list, func(a, b ItemCost) int {
		return cmp.Or(cmp.Compare(b.Cost, a.Cost), cmp.Compare(a.Index, b.Index))
	})
	return check.First(list, dearestKept)
}

// Queue returns the items whose work waits to be merged, those that are being merged included, in the order
// in which that is done: that in which their agents were done, or that of the items.
func (j *Job) Queue(byItem bool) []Queued {
	return slices.SortedFunc(maps.Values(j.merging), func(a, b Queued) int {
		if byItem {
			return cmp.Compare(a.Index, b.Index)
		}
		return cmp.Compare(a.seq, b.seq)
	})
}
