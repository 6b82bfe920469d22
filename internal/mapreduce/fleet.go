package mapreduce

import (
	"fmt"
	"sync"
	"time"

	"prodigy/internal/events"
)

// OnFleetError is the error for a job that is resumed without the fleet that may still run some of its attempts.
type OnFleetError struct {
	JobID    string
	Attempts int
}

func (e *OnFleetError) Error() string {
	return fmt.Sprintf("workers of a fleet may still run items of job %s: %d; resume it with --fleet (--fleet none gives them up, and they may run twice)", e.JobID, e.Attempts)
}

// onFleet is the number of attempts that workers of a fleet may still run.
func (j *job) onFleet() int {
	n := 0
	for _, f := range j.state.Running {
		if f.Fleet {
			n++
		}
	}
	return n
}

// fleetSlots are the slots of the workers that take part in a job, as the fleet has said last. It may be used by several goroutines.
type fleetSlots struct {
	changed chan struct{} // gets a value when they have changed

	mu             sync.Mutex
	workers, slots int
}

func (f *fleetSlots) set(workers, slots int) {
	f.mu.Lock()
	f.workers, f.slots = workers, slots
	f.mu.Unlock()
	select {
	case f.changed <- struct{}{}:
	default: // there is one already
	}
}

func (f *fleetSlots) now() (workers, slots int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.workers, f.slots
}

// ceiling is how many slots of a fleet a job uses at most that is elastic; 0: all.
func (j *job) ceiling() int {
	if j.state.Slots > 0 { // somebody has asked for it
		return j.state.Slots
	}
	if m := j.workflow.Map; m.Concurrency != nil || m.Ramp != nil {
		return m.MaxParallel.Value
	}
	return 0
}

// fleetUses is how many slots of the fleet the job uses.
func (j *job) fleetUses() (workers, n int) {
	workers, n = j.crew.now()
	n = min(n, maxFleetSlots)
	if most := j.ceiling(); most > 0 {
		n = min(n, most)
	}
	return workers, n
}

// fleetSettles is how long the slots of a fleet may change before that is recorded, since workers mostly come several at a time.
const fleetSettles = 200 * time.Millisecond

// fitFleet has the job use the slots that the fleet has. One is left when there is no worker, so that an attempt waits for the first.
func (p *pool) fitFleet(now time.Time) {
	_, n := p.job.fleetUses()
	p.resize(max(n, 1))
	if n != p.job.recorded && p.job.recordAt.IsZero() {
		p.job.recordAt = now.Add(fleetSettles)
	}
}

// recordFleet records that the slots of the fleet have changed, once that is due.
func (p *pool) recordFleet(now time.Time) {
	j := p.job
	if j.recordAt.IsZero() || now.Before(j.recordAt) {
		return
	}
	j.recordAt = time.Time{}
	workers, n := j.fleetUses()
	if n == j.recorded {
		return
	}
	j.record(events.ScaleRequested{MaxParallel: n, Was: j.recorded, By: "the fleet", Fleet: true, Workers: workers})
	j.recorded = n
}
