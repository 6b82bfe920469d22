package mapreduce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/limits"
	"prodigy/internal/reuse"
	"prodigy/internal/workflow"
)

// runMap runs the map phase, or what is left of it.
func (j *owner) runMap(ctx context.Context) (Result, error) {
	p := j.Phase("map")
	if p.Completed {
		if len(j.Merging) == 0 {
			return Result{State: jobs.Completed}, nil
		}
		// a retry of dead letters was stopped before their work was merged
		return j.runPool(ctx, source{cancel: func() {}}, nil, nil)
	}
	now := j.fingerprint(ctx)
	if !p.Started {
		j.Record(events.PhaseStarted{Phase: "map", Fingerprint: &now})
	}
	if err := j.openReuse(now); err != nil {
		return Result{}, err
	}
	if v, err := j.whileHeld(ctx); err != nil || v != nil { // somebody asked for a stop, or a pause, while setup ran
		return *cmp.Or(v, &Result{}), err
	}
	due, alone := j.waiting() // before the selection begins, which brings what the store has lost
	j.stages = limits.StagesOf(j.workflow.Map)
	v, err := j.runPool(ctx, j.selected(), due, alone)
	if err == nil && v.State == jobs.Completed {
		j.recordPhaseCompleted("map", "")
	}
	return v, err
}

// fingerprint returns what the items share that are run from now on.
func (j *owner) fingerprint(ctx context.Context) events.Fingerprint {
	captured := map[string]string{}
	for _, s := range j.earlier("map") {
		captured[s.Capture] = s.Output
	}
	register := j.register
	if j.config.Simulate != nil || j.space != nil { // of those nobody takes results over
		register = nil
	}
	return reuse.FingerprintOf(ctx, j.config.Reuse(), j.workflow, captured, register)
}

// openReuse opens the earlier jobs of a job that takes over results, and records the fingerprint that its items
// have from now on.
func (j *owner) openReuse(now events.Fingerprint) (err error) {
	if j.Fingerprint == nil || !j.Fingerprint.Equal(now) {
		j.Record(events.FingerprintChanged{Fingerprint: now})
	}
	since := j.meta.Since
	if since == nil {
		return nil
	}
	j.reuse, err = reuse.Open(j.config.Home, j.workflow.Map, *since, *j.Fingerprint, j.files)
	if errors.Is(err, jobs.ErrNotFound) {
		j.notice(fmt.Sprintf("job %s, whose results were to be reused, was deleted: running all remaining items",
			since.JobID))
		return nil
	}
	if err != nil {
		return fmt.Errorf("reuse results of job %s: %w", since.JobID, err)
	}
	return nil
}

// runPool runs the items that are due and those of a source, each until it is settled, in at most j.parallel slots.
func (j *owner) runPool(ctx context.Context, s source, due, alone []dueItem) (Result, error) {
	p := &pool{
		owner: j, source: s, runners: newRunners(ctx), flights: map[int64]*flight{}, slots: newSlots(j.parallel),
		suspects: suspects{waiting: alone, out: -1}, submitter: submitter{room: make(chan struct{}, 1)},
	}
	defer p.runners.kill(nil)
	defer close(p.runners.idle)
	if err := p.makeTemplate(); err != nil {
		return Result{}, err
	}
	for _, d := range due {
		p.again(d)
	}
	p.suspects.waiting = slices.DeleteFunc(p.suspects.waiting, p.dropSkipped)
	looking, enough := context.WithCancel(ctx)
	defer enough()
	if err := p.openGates(looking); err != nil {
		return Result{}, err
	}
	defer func() { j.Live = nil }()
	n := 0 // suspects, and not items that run alone for lack of memory
	for _, d := range p.suspects.waiting {
		if j.suspect(d.index) {
			n++
		}
	}
	if n > 0 {
		j.notice(fmt.Sprintf("items that were running whenever the job crashed for no known reason, and now run alone after all others: %d", n))
	}
	p.enqueueAll()
	p.adopt()
	p.checkPolicy() // an item may have been set aside before
	p.run(ctx)
	p.slots.endSeeking()
	s.cancel()
	if err := j.Log.Err(); err != nil {
		return Result{}, err
	}
	if p.halted != nil {
		return *p.halted, nil
	}
	if p.ending.cutOff != nil {
		return j.selectionFailed(p.ending.cutOff), nil
	}
	return Result{State: jobs.Completed}, nil
}

// makeTemplate sets what all agents have in common, and what waits by its keys.
func (p *pool) makeTemplate() (err error) {
	m, a := p.workflow.Map, &p.template
	*a = p.owner.attempt("map")
	a.Steps, a.PerValue = m.AgentTemplate, m.ItemsFromArgs
	a.Batch, a.Producing = m.Batch > 0, len(m.Produces) > 0
	a.Handler = p.workflow.Handlers[p.workflow.ErrorPolicy.OnItemFailure.Handler]
	a.Limits.Cleanup, a.Limits.SkipHandlerOnTimeout = m.Timeouts.Cleanup, m.Timeouts.Action != ""
	if a.Limits.Agent, err = p.config.limit(p.workflow, "agent_timeout_secs", m.AgentLimit()); err != nil {
		return err
	}
	a.SetSpec()
	p.lobby, err = p.newLobby()
	return err
}

// run is the loop that owns the job while the map phase lasts.
func (p *pool) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	stop, failed, dead := p.config.Stop.Done(), p.Log.Failed(), ctx.Done()
	for {
		p.merge()
		p.recordFleet(time.Now())
		more := p.dispatch(time.Now())
		if p.over() {
			p.recordFleet(p.recordAt)
			return
		}
		switch next := p.next; {
		case more:
			timer.Reset(0)
		case next.IsZero():
			timer.Stop()
		default:
			timer.Reset(time.Until(next))
		}
		select {
		case m := <-p.inbox:
			m.deliver(p)
		case c := <-p.controls:
			p.control(c)
		case <-p.fleetSlots.changed:
			p.fitFleet(time.Now())
		case <-p.host.starts.ended:
			p.agentEnded(time.Now())
		case it, ok := <-p.wanted():
			p.receive(it, ok)
		case <-p.source.chosen:
			p.selected()
		case f := <-p.slots.seeker.found:
			p.foundShared(f)
		case <-timer.C:
		case <-p.submitter.room:
		case <-p.ending.grace:
			p.runners.kill(errors.New(p.halted.Reason))
		case <-stop:
			stop = nil
			p.register.Stopping()
			reason := context.Cause(p.config.Stop).Error()
			p.Record(events.StopRequested{Reason: reason})
			p.halt(Result{State: jobs.Stopped, Reason: reason}, p.config.Grace)
		case <-dead:
			dead = nil
			p.halt(Result{State: jobs.Stopped, Reason: context.Cause(ctx).Error()}, 0)
		case <-failed:
			failed = nil
			p.halt(Result{State: jobs.Failed, Reason: "the event log cannot be written"}, 0)
			p.runners.kill(p.Log.Err())
		}
	}
}

func (p *pool) over() bool {
	if p.runners.busy() || p.merger.busy {
		return false
	}
	if p.halted != nil {
		return p.merger.publish == nil || p.runners.ctx.Err() != nil
	}
	if p.single.between {
		return p.Limits.Pause.Hold == nil
	}
	return p.exhausted() && len(p.suspects.waiting) == 0 && !p.mayMerge() && p.merger.publish == nil
}

// wanted returns the channel of new items if one could be started, else nil. So the reader of the input is only
// a few items ahead.
func (p *pool) wanted() <-chan offered {
	if p.halted != nil || p.fresh != nil || p.source.whole && p.source.chosen != nil {
		return nil
	}
	return p.source.found
}

func (p *pool) receive(it offered, ok bool) {
	if ok && it.reused != nil {
		p.Record(*it.reused)
		p.merger.last = it.Index
		return
	}
	if ok {
		p.merger.last = it.Index
		if p.Skips[it.Index] != "" {
			p.skipWaiting(it.ID, it.Index)
			p.checkPolicy()
			return
		}
		p.fresh = &it
		return
	}
	p.source.found = nil
	switch err := p.source.failed(); {
	case errors.Is(err, errInputGone): // what waits, or is still out, runs all the same: no other run can do more
		p.ending.cutOff = err
	case err != nil:
		p.haltSelecting(err)
	}
}

// selected records that the selection has ended.
func (p *pool) selected() {
	p.source.chosen = nil
	selected, notes, err := p.source.choice()
	if err != nil {
		p.haltSelecting(err)
		return
	}
	p.Record(selected)
	for _, note := range notes {
		p.notice("warning: " + note)
	}
	p.checkPolicy()
}

// deliver takes the end of an attempt.
func (e *attemptEnd) deliver(p *pool) {
	p.runners.running--
	switch {
	case e.ItemID == "":
		p.single.end = e
	case errors.Is(e.err, agent.ErrDetached):
		p.release(e, p.Seq)
	default:
		p.ended(e)
	}
}

// ended records the end of an attempt, and does what follows from it.
func (p *pool) ended(e *attemptEnd) {
	index, breaker := e.ItemIndex, p.flights[e.Token].keys.breaker
	p.asTimeout(e)
	seq := p.recordOutcome(e, p.halted)
	for _, keys := range p.full[breaker] {
		p.starts.again(keys)
	}
	delete(p.full, breaker)
	p.haltForOwn(e.err)
	p.condemn(index)
	if w, ok := p.Merging[index]; ok && w.Seq == seq {
		p.enqueue(index)
		// The slot is held until the work is merged: who begins there next begins at it. With `order: items` nobody
		// would, and what is merged first may still need a slot.
		if p.workflow.Workspace.Order != workflow.OrderItems {
			if slot := p.flights[e.Token].slot; slot > 0 {
				p.slots.taken[slot]++
				p.merger.slots[index] = slot
			}
		}
	}
	p.release(e, seq)
	p.checkPolicy()
}

// release frees the slot of an agent that has ended; with strict durability not before its record is on disk.
func (p *pool) release(e *attemptEnd, seq int64) {
	f := p.flights[e.Token]
	delete(p.flights, e.Token)
	p.lobby.forget(e.Token)
	if p.fleet == nil {
		f.end(nil)
	}
	slot := f.slot
	if slot == 0 || p.fleet != nil {
		p.unpark(e.Token)
	}
	p.suspects.ended(e.ItemIndex)
	if p.suspects.alone && !p.exhausted() {
		p.suspects.alone = false // it ran alone only so that the stage of a rollout ends
	}
	if w, ok := p.Waiting[e.ItemIndex]; ok && p.halted == nil {
		d := dueItem{id: w.ID, index: e.ItemIndex, due: w.Due}
		if w.Retry.Alone {
			p.suspects.waiting = append(p.suspects.waiting, d)
		} else {
			p.again(d)
		}
	}
	if p.config.Durability == events.Strict {
		p.runners.syncing++
		p.agents.Go(func() error {
			_ = p.Log.Wait(seq) // the owner learns of a write error from the log itself
			p.inbox <- synced{slot}
			return nil
		})
		return
	}
	p.freeSlot(slot)
}

// waiting returns the items that waited for their next attempt when the run before ended; separately those that are
// to run alone, of which those come first that were alone at fewer deaths.
func (j *owner) waiting() (due, alone []dueItem) {
	for index, w := range j.Waiting {
		switch d := (dueItem{id: w.ID, index: index, due: w.Due}); {
		case index >= j.Store.Len(): // a power loss took it from the store: the selection will bring it again
		case j.suspect(index) || w.Retry.Alone:
			alone = append(alone, d)
		default:
			due = append(due, d)
		}
	}
	slices.SortFunc(alone, func(a, b dueItem) int {
		return cmp.Or(cmp.Compare(j.Crashes[a.index].Alone, j.Crashes[b.index].Alone),
			cmp.Compare(a.index, b.index))
	})
	return due, alone
}

// whileHeld waits while the job is paused, at the beginning of a phase. It returns how the run ends, if it does.
func (j *owner) whileHeld(ctx context.Context) (*Result, error) {
	if v := j.stopResult(); v != nil || j.Limits.Pause.Hold == nil {
		return v, nil
	}
	p := j.poolOfNone(ctx)
	p.single.between = true
	defer p.runners.kill(nil)
	p.run(ctx)
	return p.halted, j.Log.Err()
}

// poolOfNone returns a pool that is about no items.
func (j *owner) poolOfNone(ctx context.Context) *pool {
	return &pool{
		owner: j, runners: newRunners(ctx), source: source{cancel: func() {}},
		gates: gates{
			all:     []limits.Limit{&j.Limits.Pause},
			windows: &limits.Windows{}, guards: &limits.Guards{},
		},
	}
}
