package mapreduce

import (
	"errors"
	"fmt"
	"time"

	"prodigy/internal/items"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/process"
)

// haltForOwn stops the pool after an error of prodigy itself, since the next attempt would fail too. A stop is
// no such error.
func (p *pool) haltForOwn(err error) {
	if err == nil || p.halted != nil || p.runners.ctx.Err() != nil || p.stopped(err) {
		return
	}
	v, grace := failed(err), p.stopGrace()
	if v.Budget != nil {
		grace = untilTheyEnd
	}
	p.halt(v, grace)
}

// failed returns how a run ends after an error of prodigy itself, or when the budget allows no further agent.
func failed(err error) Result {
	if spent, ok := errors.AsType[*limit.JobSpent](err); ok {
		return Result{State: jobs.Failed, Reason: spent.Error(), Budget: spent}
	}
	return Result{State: jobs.Failed, Reason: err.Error(), Cause: err}
}

// checkPolicy stops the pool when the policy says so.
func (p *pool) checkPolicy() {
	if reason, stop := p.Policy.Stop(); stop {
		p.halt(Result{State: jobs.Failed, Reason: reason}, p.stopGrace())
	}
	if reason, alike := p.AllAlike(); alike {
		p.halt(Result{State: jobs.Failed, Reason: reason}, p.stopGrace())
	}
}

func (p *pool) stopGrace() time.Duration {
	if p.config.StopNow {
		return 0
	}
	return p.config.Grace
}

// untilTheyEnd is a grace without an end: what runs is paid for.
const untilTheyEnd = time.Duration(-1)

// halt begins a stop: nothing starts any more, waits end, and running agents have the grace to finish. The
// first reason is kept; a later halt can only shorten the grace.
func (p *pool) halt(v Result, grace time.Duration) {
	if p.halted == nil {
		p.halted = &v
		p.source.cancel()
		select {
		case <-p.halting: // a phase before was halted, and came to its end all the same
		default:
			close(p.halting)
		}
	}
	if grace != untilTheyEnd && p.ending.grace == nil {
		p.ending.grace = time.After(grace)
		p.holdFleet()
	}
	if grace == 0 {
		p.runners.kill(fmt.Errorf("%s: %w", v.Reason, process.ErrKill))
	}
}

func (p *pool) haltSelecting(err error) { p.halt(p.selectionFailed(err), p.stopGrace()) }

// selectionFailed returns how a run ends whose selection of items has failed.
func (j *owner) selectionFailed(err error) Result {
	v := Result{State: jobs.Failed, Reason: "select items: " + err.Error() + j.uncommitted(err), Cause: err}
	v.Refused = items.Mistaken(err) && j.workflow.Setup == nil
	return v
}

// holdFleet tells the fleet, once, that the job begins to stop.
func (p *pool) holdFleet() {
	if p.fleet != nil && !p.ending.fleetHeld {
		p.ending.fleetHeld = true
		p.fleet.Hold()
	}
}
