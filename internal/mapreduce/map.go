package mapreduce

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/gitspace"
	"prodigy/internal/items"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/limits"
	"prodigy/internal/process"
	"prodigy/internal/retry"
	"prodigy/internal/reuse"
)

// runMap runs the map phase, or what is left of it.
func (j *owner) runMap(ctx context.Context) (Result, error) {
	p := j.Fold.Phase("map")
	if p.Completed {
		if len(j.Fold.Merging) == 0 {
			return Result{State: job.Completed}, nil
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
		return result(v), err
	}
	due := j.due() // before the selection begins, which brings what the store has lost
	j.stages = limits.StagesOf(j.workflow.Map)
	v, err := j.runPool(ctx, j.selected(), due, j.suspects())
	if err == nil && v.State == job.Completed {
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
	if j.Fold.Fingerprint == nil || !j.Fold.Fingerprint.Equal(now) {
		j.Record(events.FingerprintChanged{Fingerprint: now})
	}
	since := j.meta.Since
	if since == nil {
		return nil
	}
	j.reuse, err = reuse.Open(j.config.Home, j.workflow.Map, *since, *j.Fold.Fingerprint, j.files)
	if errors.Is(err, jobs.ErrNotFound) {
		j.notice(fmt.Sprintf("job %s, whose results were to be taken over, is gone: all items that are left are run",
			since.JobID))
		return nil
	}
	if err != nil {
		return fmt.Errorf("take over results of job %s: %w", since.JobID, err)
	}
	return nil
}

// runPool runs the items that are due and those of a source, each until it is settled, in at most j.parallel slots.
func (j *owner) runPool(ctx context.Context, s source, due ordered[dueItem], alone []dueItem) (Result, error) {
	p := &pool{
		job: j, source: s, runners: newRunners(ctx), flights: map[int64]*flight{}, slots: newSlots(j.parallel),
		suspects: suspects{waiting: alone, out: -1}, submitter: submitter{room: make(chan struct{}, 1)},
	}
	defer p.runners.kill(nil)
	defer close(p.runners.idle)
	if err := p.makeTemplate(); err != nil {
		return Result{}, err
	}
	for _, d := range due {
		p.again(d)
		j.crowds.add(d.due)
	}
	p.suspects.waiting = slices.DeleteFunc(p.suspects.waiting, p.dropSkipped)
	looking, enough := context.WithCancel(ctx)
	defer enough()
	if err := p.openGates(looking); err != nil {
		return Result{}, err
	}
	defer func() { j.Live = nil }()
	if n := p.suspects.count(j); n > 0 {
		j.notice(fmt.Sprintf("items that were running each time the job died for no known reason, and so run alone, after all others: %d", n))
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
	return Result{State: job.Completed}, nil
}

// makeTemplate sets what all agents have in common, and what waits by its keys.
func (p *pool) makeTemplate() (err error) {
	j := p.job
	p.template = j.attempt("map")
	p.template.Steps, p.template.PerValue = j.workflow.Map.AgentTemplate, j.workflow.Map.ItemsFromArgs
	p.template.Batch, p.template.Producing = j.workflow.Map.Batch > 0, len(j.workflow.Map.Produces) > 0
	p.template.Handler = j.workflow.Handlers[j.workflow.ErrorPolicy.OnItemFailure.Handler]
	if p.template.Limits, err = j.limits(); err != nil {
		return err
	}
	p.template.SetSpec()
	p.lobby, err = j.newLobby()
	return err
}

// run is the loop that owns the job while the map phase lasts.
func (p *pool) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	stop, failed, dead := p.job.config.Stop.Done(), p.job.Log.Failed(), ctx.Done()
	for {
		p.merge()
		p.recordFleet(time.Now())
		more := p.dispatch(time.Now())
		if p.over() {
			p.recordFleet(p.job.recordAt)
			return
		}
		p.lobby.arm(timer)
		select {
		case m := <-p.job.inbox:
			p.handle(m)
		case c := <-p.job.controls:
			p.control(c)
		case <-p.job.fleetSlots.changed:
			p.fitFleet(time.Now())
		case it, ok := <-p.wanted():
			p.receive(it, ok)
		case <-p.source.chosen:
			p.selected()
		case f := <-p.slots.seeker.found:
			p.foundShared(f)
		case <-timer.C:
		case <-p.submitter.room:
		case <-ready(more):
		case <-p.ending.grace:
			p.runners.kill(errors.New(p.halted.Reason))
		case <-stop:
			stop = nil
			p.job.register.Stopping()
			p.halt(Result{State: job.Paused, Reason: context.Cause(p.job.config.Stop).Error()}, p.job.config.Grace)
		case <-dead:
			dead = nil
			p.halt(Result{State: job.Paused, Reason: context.Cause(ctx).Error()}, 0)
		case <-failed:
			failed = nil
			p.halt(Result{State: job.Failed, Reason: "the event log cannot be written"}, 0)
			p.runners.kill(p.job.Log.Err())
		}
	}
}

// ready returns a channel that can be received from at once when there is more to dispatch.
func ready(more bool) <-chan time.Time {
	if !more {
		return nil
	}
	c := make(chan time.Time)
	close(c)
	return c
}

func (p *pool) over() bool {
	if p.runners.busy() || p.merger.busy {
		return false
	}
	if p.halted != nil {
		return p.merger.publish == nil || p.runners.ctx.Err() != nil
	}
	if p.single.between {
		return p.job.Fold.Limits.Pause.Hold == nil
	}
	return p.exhausted() && len(p.suspects.waiting) == 0 && !p.mayMerge() && p.merger.publish == nil
}

// wanted returns the channel of new items if one could be started, else nil. So the reader of the input is only
// a few items ahead.
func (p *pool) wanted() <-chan offered {
	if p.halted != nil || p.lobby.fresh != nil || p.source.whole && p.source.chosen != nil {
		return nil
	}
	return p.source.found
}

func (p *pool) receive(it offered, ok bool) {
	if ok && it.reused != nil {
		p.job.Record(*it.reused)
		p.merger.last = it.Index
		return
	}
	if ok {
		p.merger.last = it.Index
		if p.job.Fold.Skips[it.Index] != "" {
			p.job.skipWaiting(it.ID, it.Index)
			p.checkPolicy()
			return
		}
		p.lobby.fresh = &it
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
	total, notes, err := p.source.choice()
	if err != nil {
		p.haltSelecting(err)
		return
	}
	p.job.Record(events.ItemsSelected{TotalItems: total, Since: p.job.reuse.Difference()})
	for _, note := range notes {
		p.job.notice("warning: " + note)
	}
	p.checkPolicy()
}

func (p *pool) haltSelecting(err error) { p.halt(p.job.selectionFailed(err), p.stopGrace()) }

// selectionFailed returns how a run ends whose selection of items has failed.
func (j *owner) selectionFailed(err error) Result {
	v := Result{State: job.Failed, Reason: "select items: " + err.Error() + j.uncommitted(err), Cause: err}
	v.Refused = items.Mistaken(err) && j.workflow.Setup == nil
	return v
}

// start runs one attempt of an item in a free slot. The keys are those of the limits that it takes a turn of.
func (p *pool) start(it offered, keys itemKeys) {
	p.turnTaken()
	a := p.attempt(it.Item, p.job.Fold.NextNumber(it.Index), p.takeSlot())
	a.Token = p.job.Record(events.AgentStarted{
		ItemID: it.ID, ItemIndex: it.Index, AgentID: a.ID, Attempt: a.Number, Worker: a.Worker,
		Alone: p.suspects.alone, Base: a.Base,
		Fleet: p.job.fleet != nil, Suspect: it.Index == p.suspects.out, Reason: it.reason, Key: keys.rate,
		BreakerKey: keys.breaker,
	}).Seq
	p.fly(a, keys)
}

// fly has a worker run an attempt whose start is recorded.
func (p *pool) fly(a agent.Attempt, keys itemKeys) {
	f := &flight{
		index: a.ItemIndex, number: a.Number, slot: a.Worker, keys: keys, began: time.Now(),
		placed: p.job.fleet == nil || a.Adopted,
	}
	p.flights[a.Token] = f
	if p.job.Fold.Times.Limits() {
		p.watch.clocks.push(clock{f.began, a.Token})
		p.soonStraggling()
	}
	if p.job.config.Trace {
		a.Trace = p.job.span().Attempt(a.Token).String()
	}
	p.runners.running++
	p.startWorker(a)
}

// adopt takes over attempts that outlived the run before. If there are more of them than slots, the others have none.
func (p *pool) adopt() {
	for _, index := range slices.Sorted(maps.Keys(p.job.Fold.Running)) {
		f := p.job.Fold.Running.At(index)
		if f.Suspect {
			p.suspects.out = index
		}
		p.adoptOne(index, f)
	}
}

func (p *pool) adoptOne(index int, f job.Running) {
	slot := 0
	if len(p.slots.free) > 0 {
		slot = p.takeSlot()
	}
	a := p.attempt(items.Item{ID: f.ID, Index: index}, f.Number, slot)
	a.Token, a.Adopted, a.RanOn = f.Token, true, f.Node
	if p.job.space != nil {
		p.inWorkspace(&a, f.Base, f.Resolve)
	}
	p.fly(a, itemKeys{f.Key, p.job.Fold.Limits.Breaker.KeyOf(index)})
	if p.job.Fold.Skips[index] != "" {
		p.flights[a.Token].end(errSkipped)
	}
}

// attempt returns an attempt at an item in a slot.
func (p *pool) attempt(it items.Item, number, slot int) agent.Attempt {
	a := p.template
	a.ItemID, a.ItemIndex, a.Item = it.ID, it.Index, it.Data
	a.ItemTotal = p.job.itemTotal()
	a.Outputs = p.job.printed.granted()
	p.job.Fold.TakeUp(&a, it.ID)
	a.Number, a.Worker = number, slot
	// of attempts that are lost there is a number and no failure
	a.Lost = p.job.fleet != nil && number-1 > p.job.Fold.Failures[it.Index]
	a.CorrelationID = p.job.place.ID + "/" + it.ID
	a.ID = p.job.attemptID(it.ID, number)
	if again := p.job.workflow.ErrorPolicy.RetryConfig; again != nil && len(a.Handler) > 0 {
		a.Again = &agent.Again{Policy: *again, State: p.job.Fold.RetryOf(it.Index)}
	}
	if p.job.space != nil {
		base, resolve := p.job.base(it.Index), p.job.Fold.Waiting[it.Index].Resolve
		if resolve != "" {
			base = p.job.Fold.Head
		}
		p.inWorkspace(&a, base, resolve)
	}
	return a
}

// inWorkspace has an attempt begin at a commit in a workspace. resolve is the work whose conflict it resolves;
// empty: it is none of those.
func (p *pool) inWorkspace(a *agent.Attempt, base, resolve string) {
	a.Base, a.Branch = base, gitspace.Config{JobID: a.JobID}.Branch(a.ItemIndex)
	if resolve != "" {
		a.Resolve, a.Steps, a.Handler = resolve, p.job.workflow.Workspace.Resolve, nil
		a.SetSpec()
	}
}

// startWorker gives an attempt to an idle goroutine, whose stack has grown already, or to a new one. One for a
// fleet does not keep its goroutine.
func (p *pool) startWorker(a agent.Attempt) {
	if p.job.fleet != nil && a.ItemID != "" {
		token := a.Token // the function is kept while the attempt is out, which holds no attempt then
		p.flights[token].end = func(cause error) { p.job.fleet.End(token, cause) }
		p.submit(a)
		return
	}
	t := task{p.runners.ctx, a}
	if f := p.flights[a.Token]; f != nil {
		t.ctx, f.end = context.WithCancelCause(p.runners.ctx)
	}
	select {
	case p.runners.idle <- t:
	default:
		p.job.agents.Go(func() error {
			p.job.execute(t.ctx, t.attempt)
			for t := range p.runners.idle {
				p.job.execute(t.ctx, t.attempt)
			}
			return nil
		})
	}
}

// dropped settles an item that is not to start: its retry budget has expired, or the open breaker refuses it. It
// reports whether it is one.
func (p *pool) dropped(it items.Item, v limits.Verdict, now time.Time) bool {
	again, used := p.job.workflow.ErrorPolicy.RetryConfig, p.job.Fold.RetryOf(it.Index)
	switch {
	case again != nil && again.Expired(used, now):
		p.job.giveUp(it, used)
	case v.Answer == limits.Refuse:
		p.job.refuse(it)
	default:
		return false
	}
	p.suspects.ended(it.Index)
	return true
}

// giveUp records the failure of an item whose retry budget expired before its next attempt could begin.
func (j *owner) giveUp(it items.Item, used retry.State) {
	last := j.Fold.Failed[it.Index]
	d := j.Fold.Policy.GiveUp(errorpolicy.Outcome{
		ItemID:  it.ID,
		Failure: retry.Failure{Type: last.Type, Message: last.Error, ExitCode: -1}, Retry: used,
	})
	j.fail(events.AgentFailed{
		ItemID: it.ID, ItemIndex: it.Index, Attempt: j.Fold.NextNumber(it.Index) - 1, Step: last.Step,
		Error: "retry budget exhausted: " + last.Error, ErrorType: last.Type,
	}, d, time.Now(), false)
}

// refuse dead-letters an item that the open breaker does not admit.
func (j *owner) refuse(it items.Item) {
	j.fail(events.AgentFailed{
		ItemID: it.ID, ItemIndex: it.Index, Attempt: j.Fold.NextNumber(it.Index) - 1,
		Error: "refused: the circuit breaker is open", ErrorType: retry.TypeCircuitOpen,
	}, errorpolicy.Decision{Action: errorpolicy.DLQ}, time.Now(), false)
}

func (p *pool) handle(m message) {
	switch {
	case m.event != nil:
		p.job.Record(p.job.printed.withOutputs(m.event, m.from))
	case m.printed != nil:
		p.haltForOwn(p.job.printed.keep(m.printed))
	case m.park != nil && p.flights[m.park.token] == nil: // it has ended: what a worker says of an attempt and the end of it come by different ways
		m.park.wake <- sameSlot
	case m.park != nil && m.park.step != nil:
		p.askTurn(m.park)
	case m.park != nil && m.park.keeps:
		p.lobby.asking.add(p.flights[m.park.token].keys.rate, m.park)
	case m.park != nil:
		p.park(m.park)
	case m.synced != nil:
		p.runners.syncing--
		p.freeSlot(m.synced.slot)
	case m.merged != nil:
		p.merged(m.merged)
	case m.done != nil && m.done.attempt.ItemID == "":
		p.runners.running--
		p.single.end = m.done
	case m.done != nil && errors.Is(m.done.err, agent.ErrDetached):
		p.runners.running--
		p.release(m.done, p.job.Fold.Seq)
	case m.done != nil:
		p.runners.running--
		p.ended(m.done)
	}
	switch e := m.event.(type) {
	case events.QuotaResumed:
		p.restartClocks()
	case events.AgentPlaced:
		p.placed(e)
	}
}

// ended records the end of an attempt, and does what follows from it.
func (p *pool) ended(e *attemptEnd) {
	index, breaker := e.attempt.ItemIndex, p.flights[e.attempt.Token].keys.breaker
	p.asTimeout(e)
	seq := p.job.recordOutcome(e, p.halted)
	p.askAgain(breaker)
	p.haltForOwn(e.err)
	p.job.condemn(index)
	if w, ok := p.job.Fold.Merging[index]; ok && w.Seq == seq {
		p.enqueue(index)
		p.holdSlot(index, p.flights[e.attempt.Token].slot)
	}
	p.release(e, seq)
	p.checkPolicy()
}

// haltForOwn stops the pool after an error of prodigy itself, since the next attempt would fail too. A stop is
// no such error.
func (p *pool) haltForOwn(err error) {
	if err == nil || p.halted != nil || p.runners.ctx.Err() != nil || p.job.stopped(err) {
		return
	}
	if spent, ok := errors.AsType[*limit.JobSpent](err); ok {
		p.halt(Result{State: job.Failed, Reason: spent.Error(), Budget: spent}, untilTheyEnd)
		return
	}
	p.halt(Result{State: job.Failed, Reason: err.Error(), Cause: err}, p.stopGrace())
}

// release frees the slot of an agent that has ended; with strict durability not before its record is on disk.
func (p *pool) release(e *attemptEnd, seq int64) {
	f := p.flights[e.attempt.Token]
	delete(p.flights, e.attempt.Token)
	p.lobby.forget(e.attempt.Token)
	if p.job.fleet == nil {
		f.end(nil)
	}
	slot := f.slot
	if slot == 0 || p.job.fleet != nil {
		p.unpark(e.attempt.Token)
	}
	p.suspects.ended(e.attempt.ItemIndex)
	if p.suspects.alone && !p.exhausted() {
		p.suspects.alone = false // it ran alone only so that the stage of a rollout ends
	}
	if w, ok := p.job.Fold.Waiting[e.attempt.ItemIndex]; ok && p.halted == nil && w.Retry.Alone {
		p.suspects.waiting = append(p.suspects.waiting, dueItem{id: w.ID, index: e.attempt.ItemIndex, due: w.Due})
	} else if ok && p.halted == nil {
		p.again(dueItem{id: w.ID, index: e.attempt.ItemIndex, due: w.Due})
	}
	if e.ack != nil {
		p.runners.syncing++
		e.ack <- ack{seq: seq, slot: slot}
		return
	}
	p.freeSlot(slot)
}

// checkPolicy stops the pool when the policy says so.
func (p *pool) checkPolicy() {
	if reason, stop := p.job.Fold.Policy.Stop(); stop {
		p.halt(Result{State: job.Failed, Reason: reason}, p.stopGrace())
	}
	if reason, alike := p.job.Fold.AllAlike(); alike {
		p.halt(Result{State: job.Failed, Reason: reason}, p.stopGrace())
	}
}

func (p *pool) stopGrace() time.Duration {
	if p.job.config.StopNow {
		return 0
	}
	return p.job.config.Grace
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
		case <-p.job.halting: // a phase before was halted, and came to its end all the same
		default:
			close(p.job.halting)
		}
	}
	if grace != untilTheyEnd && p.ending.grace == nil {
		p.ending.grace = time.After(grace)
		p.holdFleet()
	}
	if grace == 0 {
		p.runners.kill(stopCause(v))
	}
}

// stopCause ends processes without grace when they are to get none.
func stopCause(v Result) error { return fmt.Errorf("%s: %w", v.Reason, process.ErrKill) }

// limits returns the limits in time of the agents of the map phase.
func (j *owner) limits() (agent.Limits, error) {
	m := j.workflow.Map
	limit, err := j.config.limit(j.workflow, "agent_timeout_secs", m.AgentLimit())
	return agent.Limits{Agent: limit, Cleanup: m.Timeouts.Cleanup, SkipHandlerOnTimeout: m.Timeouts.Action != ""}, err
}

// due returns the items that waited for their next attempt when the run before ended.
func (j *owner) due() ordered[dueItem] {
	var due ordered[dueItem]
	for index, w := range j.Fold.Waiting {
		if index >= j.Store.Len() {
			continue // a power loss took it from the store: the selection will bring it again
		}
		if j.suspect(index) || w.Retry.Alone {
			continue
		}
		due.push(dueItem{id: w.ID, index: index, due: w.Due})
	}
	return due
}

// itemTotal is how many items there are, 0 while that is unknown. The values of a command line are known from
// the first on.
func (j *owner) itemTotal() int {
	if m := j.workflow.Map; m.ItemsFromArgs {
		return len(m.Input.Items)
	}
	return j.Fold.Total
}
