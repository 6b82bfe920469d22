package view

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// InFlight returns the running attempts, the longest first.
func (j *Job) InFlight() []Attempt {
	list := make([]Attempt, 0, len(j.running))
	for _, a := range j.running {
		shown := *a
		shown.Printed, shown.Held = j.printed[a.ItemID], j.paused(a)
		list = append(list, shown)
	}
	slices.SortFunc(list, func(a, b Attempt) int {
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Number, b.Number))
	})
	return list
}

// AtWork returns the number of attempts that have begun and not ended, also of those that wait.
func (j *Job) AtWork() int { return len(j.running) }

// Where says where an attempt runs on a fleet, as in "worker-3 slot 2 on host a"; empty if it runs here, or that is not known.
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

// Waiting returns the number of items that wait for another attempt, for the next try of a step, or for a
// slot afterwards.
func (j *Job) Waiting(now time.Time) int {
	return len(j.waiting.due) + len(j.running) - j.AwaitWorkers(now) - j.Running(now)
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
	_, step := j.parked(now)
	item := j.waiting.first()
	if item.IsZero() || !step.IsZero() && step.Before(item) {
		return step
	}
	return item
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

// Merging returns the number of items whose work waits to be merged, and how long the first of them has waited.
func (j *Job) Merging(now time.Time) (n int, longest time.Duration) {
	for _, q := range j.merging {
		longest = max(longest, now.Sub(q.since))
	}
	return len(j.merging), longest
}

// ToGo returns the number of known items without an outcome.
func (j *Job) ToGo() int { return max(j.Total-j.Counts.Finished(), 0) }

// waiting are the items between two attempts. The heap may hold outdated moments; due has the valid ones.
type waiting struct {
	due     map[int]time.Time // by item index
	ids     map[int]string    // of the items in due
	moments moments
	latest  time.Time // of all that were ever added
}

func newWaiting() waiting { return waiting{due: map[int]time.Time{}, ids: map[int]string{}} }

func (w *waiting) add(index int, due time.Time) {
	w.due[index] = due
	heap.Push(&w.moments, moment{due, index})
	if due.After(w.latest) {
		w.latest = due
	}
}

func (w *waiting) remove(index int) {
	delete(w.due, index)
	delete(w.ids, index)
	w.first()
}

// first returns the earliest valid moment, and drops outdated ones before it.
func (w *waiting) first() time.Time {
	for len(w.moments) > 0 {
		m := w.moments[0]
		if due, ok := w.due[m.index]; ok && due.Equal(m.due) {
			return m.due
		}
		heap.Pop(&w.moments)
	}
	return time.Time{}
}

// moment is when an item is due.
type moment struct {
	due   time.Time
	index int
}

// moments is a heap with the earliest first.
type moments []moment

func (m moments) Len() int           { return len(m) }
func (m moments) Less(a, b int) bool { return m[a].due.Before(m[b].due) }
func (m moments) Swap(a, b int)      { m[a], m[b] = m[b], m[a] }
func (m *moments) Push(x any)        { *m = append(*m, x.(moment)) }
func (m *moments) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}

// FleetSlots says how many slots the workers of a fleet have, or nothing if the job has another number of them.
func (j *Job) FleetSlots() string {
	if !j.OnFleet {
		return ""
	}
	text := strconv.Itoa(j.MaxParallel) + " slots"
	if j.MaxParallel == 1 {
		text = "1 slot"
	}
	if j.Workers == 1 {
		return text + " on 1 worker"
	}
	return fmt.Sprintf("%s on %d workers", text, j.Workers)
}
