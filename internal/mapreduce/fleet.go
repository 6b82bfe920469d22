package mapreduce

import (
	"fmt"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/check"
	"prodigy/internal/events"
)

// OnFleetError is the error for a job that ran on a fleet and is resumed without one.
type OnFleetError struct {
	JobID    string
	Broker   string // of that fleet; empty if it is not known
	Attempts int    // that workers may still run
}

func (e *OnFleetError) Error() string {
	there, fleet := "the same --fleet or --credentials", "a fleet"
	if e.Broker != "" {
		there, fleet = "--fleet "+e.Broker+" (or the same --credentials)", "the fleet of "+e.Broker
	}
	here := "run the rest here"
	if e.Attempts > 0 {
		here = fmt.Sprintf("resume it here, where %d items that workers may still be running may run twice", e.Attempts)
	}
	return fmt.Sprintf("job %s ran on %s: use %s to resume it there, or --fleet none to %s", e.JobID, fleet, there, here)
}

// ceiling is how many slots of a fleet a job uses at most that is elastic; 0 means all.
func (j *owner) ceiling() int {
	if j.Slots > 0 { // somebody has asked for it
		return j.Slots
	}
	if m := j.workflow.Map; m.Concurrency != nil || m.Ramp != nil {
		return m.MaxParallel.Value
	}
	return 0
}

// fleetUses is how many slots of the fleet the job uses; all of them if it is not elastic: then its own limit
// counts besides.
func (j *owner) fleetUses() (workers, n int) {
	workers, n = j.fleetSlots.now()
	n = min(n, maxFleetSlots)
	if most := j.ceiling(); j.elastic && most > 0 {
		n = min(n, most)
	}
	return workers, n
}

// fleetSettles is how long the slots of a fleet may change before that is recorded, since workers mostly come
// several at a time.
const fleetSettles = 200 * time.Millisecond

// fitFleet has an elastic job use the slots that the fleet has. One is left when there is no worker, so that an
// attempt waits for the first.
func (p *pool) fitFleet(now time.Time) {
	_, n := p.fleetUses()
	if p.elastic {
		p.resize(max(n, 1))
	}
	if n != p.recorded && p.recordAt.IsZero() {
		p.recordAt = now.Add(fleetSettles)
	}
}

// recordFleet records that the slots of the fleet have changed, once that is due. A job that is not elastic
// says only which there are at first.
func (p *pool) recordFleet(now time.Time) {
	if p.recordAt.IsZero() || now.Before(p.recordAt) {
		return
	}
	p.recordAt = time.Time{}
	workers, n := p.fleetUses()
	e := events.ScaleRequested{MaxParallel: n, Was: p.recorded, By: "the fleet", Fleet: true, Workers: workers}
	switch {
	case n == p.recorded, !p.elastic && p.recorded > 0:
		return
	case p.elastic:
		p.Record(e)
	default:
		p.notice(e.Words())
	}
	p.recorded = n
}

// submit has an attempt given to the fleet.
func (p *pool) submit(a agent.Attempt) {
	p.submitter.n.Add(1)
	p.agents.Go(func() error {
		p.execute(p.runners.ctx, a)
		if p.submitter.n.Add(-1) == mostUnsent/2 {
			check.Wake(p.submitter.room)
		}
		return nil
	})
}

// maxFleetSlots bounds what is given to a fleet at once.
const maxFleetSlots = 100_000
