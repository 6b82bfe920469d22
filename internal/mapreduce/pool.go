package mapreduce

import (
	"cmp"
	"container/heap"
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
	"prodigy/internal/process"
	"prodigy/internal/retry"
	"prodigy/internal/spend"
)

// pool is the map phase at work. All of it belongs to the goroutine of run; agents send it messages.
type pool struct {
	job      *job
	template agent.Attempt // what all agents have in common

	agents context.Context // ends when the agents are to be ended
	kill   context.CancelCauseFunc
	source source
	cutOff error     // the run ends with it once all is done: what the source has given is not all there was; nil: it is
	idle   chan task // of goroutines that wait for another attempt

	free    []int             // slots nobody holds, the next one last
	taken   map[int]int       // slots that are held: by how many, an attempt and work that ended there and is not merged
	flights map[int64]*flight // attempts that have not ended, by their tokens; nil: the pool is about no items
	running int               // agents that have not ended
	syncing int               // agents that have ended and wait for the disk with their slot

	fresh  *offered // the next new item, when it has been received
	due    dueHeap  // items that wait for their next attempt
	parked parkHeap // agents that wait for the next try of a step

	suspects []dueItem // items that run alone, when all others are done
	lone     []dueItem // items that may be what killed workers: one of them is out at a time
	loneOut  int       // the index of that one, -1: none is
	alone    bool      // all others are done: one suspect at a time
	pause    time.Time // nothing starts before, so that a suspect runs alone; zero: no pause has begun

	submitter submitter // of a job on a fleet

	seeker seeker // of a job that shares the slots of a pool
	merger merger // of a job with workspaces

	total time.Time // nothing starts before, unless the selection has ended: agents ask how many items there are, or it is a list, whose number people know

	stages []stage // of the rollout

	steps       stepQueues // agents that wait for the turns of steps
	stepsParked int        // of them: without a slot

	watch watch // of stragglers

	gates gates // that hold back all starts
	turns turns // of a job with a limit of its starts

	held bool      // the breaker admitted nothing when it was last asked
	hold time.Time // when to ask it again; zero: after the next outcome

	gone      map[int]bool // items in turns.starts that were settled meanwhile
	retryHold bool         // retries wait because there were too many
	fleetHeld bool         // the fleet knows that the job stops
	between   bool         // it runs nothing, and only waits until the job is not paused any more

	end    *attemptEnd // of the one attempt of a pool that is about no items
	halted *runResult  // set when the pool stops before its end
	grace  <-chan time.Time
}

// runMap runs the map phase, or what is left of it.
func (j *job) runMap(ctx context.Context) (runResult, error) {
	p := j.state.phase("map")
	if p.Completed {
		if len(j.state.Merging) == 0 {
			return runResult{state: Completed}, nil
		}
		return j.runPool(ctx, source{cancel: func() {}}, nil, nil) // a retry of dead letters was stopped before their work was merged
	}
	now := j.fingerprint(ctx)
	if !p.Started {
		j.record(events.PhaseStarted{Phase: "map", Fingerprint: now})
	}
	if err := j.openReuse(now); err != nil {
		return runResult{}, err
	}
	if v, err := j.whileHeld(ctx); err != nil || v != nil { // somebody asked for a stop, or a pause, while setup ran
		return result(v), err
	}
	due := j.due() // before the selection begins, which brings what the store has lost
	j.stages = stagesOf(j.workflow.Map)
	v, err := j.runPool(ctx, j.selected(), due, j.suspects())
	if err == nil && v.state == Completed {
		j.recordPhaseCompleted("map", "")
	}
	return v, err
}

// runPool runs the items that are due and those of a source, each until it is settled, in at most j.parallel slots.
func (j *job) runPool(ctx context.Context, s source, due dueHeap, suspects []dueItem) (runResult, error) {
	p := &pool{job: j, template: j.attempt("map"), source: s, idle: make(chan task), flights: map[int64]*flight{}, taken: map[int]int{}, gone: map[int]bool{}, suspects: suspects, loneOut: -1, stages: j.stages, submitter: submitter{room: make(chan struct{}, 1)}}
	for _, d := range due {
		p.again(d)
		j.crowds.add(d.due)
	}
	p.suspects = slices.DeleteFunc(p.suspects, p.dropSkipped)
	defer close(p.idle)
	p.template.Steps, p.template.PerValue = j.workflow.Map.AgentTemplate, j.workflow.Map.ItemsFromArgs
	p.template.Batch, p.template.Producing = j.workflow.Map.Batch > 0, len(j.workflow.Map.Produces) > 0
	limits, err := j.limits()
	if err == nil {
		p.turns, err = j.newTurns()
	}
	looking, enough := context.WithCancel(ctx)
	defer enough()
	if err == nil {
		err = p.openGates(looking)
	}
	if err != nil {
		return runResult{}, err
	}
	p.template.Limits = limits
	p.template.Handler = j.workflow.Handlers[j.workflow.ErrorPolicy.OnItemFailure.Handler]
	p.template.SetSpec()
	for slot := j.parallel; slot > 0; slot-- {
		p.free = append(p.free, slot)
	}
	p.agents, p.kill = context.WithCancelCause(ctx)
	defer p.kill(nil)
	n := 0
	for _, d := range p.suspects {
		if j.suspect(d.index) {
			n++
		}
	}
	if n > 0 {
		j.notice(fmt.Sprintf("items that were running each time the job died for no known reason, and so run alone, after all others: %d", n))
	}
	if s.chosen != nil && (namesTotal(p.template.Steps, p.template.Handler) || len(j.workflow.Map.Input.Items) > 0) {
		p.total = time.Now().Add(totalWait)
	}
	p.enqueueAll()
	p.adopt()
	p.checkPolicy() // an item may have been set aside before
	p.run(ctx)
	p.endSeeking()
	s.cancel()
	if err := j.log.Err(); err != nil {
		return runResult{}, err
	}
	if p.halted != nil {
		return *p.halted, nil
	}
	if p.cutOff != nil {
		return j.selectionFailed(p.cutOff), nil
	}
	return runResult{state: Completed}, nil
}

// run is the loop that owns the job while the map phase lasts.
func (p *pool) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	stop, failed, dead := p.job.config.Stop.Done(), p.job.log.Failed(), ctx.Done()
	for {
		p.merge()
		p.recordFleet(time.Now())
		more := p.dispatch(time.Now())
		if p.over() {
			p.recordFleet(p.job.recordAt)
			return
		}
		p.arm(timer)
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
		case f := <-p.seeker.found:
			p.foundShared(f)
		case <-timer.C:
		case <-p.submitter.room:
		case short := <-p.gates.changed:
			p.guarded(short)
		case <-ready(more):
		case <-p.grace:
			p.kill(errors.New(p.halted.reason))
		case <-stop:
			stop = nil
			p.job.register.Stopping()
			p.halt(runResult{state: Paused, reason: context.Cause(p.job.config.Stop).Error()}, p.job.config.Grace)
		case <-dead:
			dead = nil
			p.halt(runResult{state: Paused, reason: context.Cause(ctx).Error()}, 0)
		case <-failed:
			failed = nil
			p.halt(runResult{state: Failed, reason: "the event log cannot be written"}, 0)
			p.kill(p.job.log.Err())
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
	if p.running > 0 || p.syncing > 0 || p.merger.busy {
		return false
	}
	if p.halted != nil {
		return p.merger.publish == nil || p.agents.Err() != nil
	}
	if p.between {
		return p.job.state.Hold == nil
	}
	return p.exhausted() && len(p.suspects) == 0 && !p.mayMerge() && p.merger.publish == nil
}

// exhausted reports whether nothing is left to start but suspects.
func (p *pool) exhausted() bool {
	return p.source.found == nil && p.source.chosen == nil && p.fresh == nil && len(p.due) == 0 && len(p.lone) == 0 && p.turns.starts.len() == len(p.gone)
}

// waitsForSuspects reports whether nothing else can begin before those have ended that are to run alone: they are of the canary.
func (p *pool) waitsForSuspects() bool {
	return p.fresh != nil && !p.mayBegin() && len(p.due) == 0 && len(p.lone) == 0 && len(p.parked) == 0 && p.turns.starts.len() == len(p.gone)
}

// isolate makes the next suspect due, once nothing else is left and some time has passed.
func (p *pool) isolate(now time.Time) {
	if len(p.suspects) == 0 || p.running > 0 || p.syncing > 0 || !p.exhausted() && !p.waitsForSuspects() {
		return
	}
	next := p.suspects[0]
	if p.pause.IsZero() {
		p.pause = now.Add(p.job.quiet(next.index))
	}
	if now.Before(p.pause) {
		return
	}
	p.alone, p.pause, p.suspects = true, time.Time{}, p.suspects[1:]
	p.due.push(next)
}

// wanted returns the channel of new items if one could be started, else nil. So the reader of the input is only a few items ahead.
func (p *pool) wanted() <-chan offered {
	if p.halted != nil || p.fresh != nil || p.source.whole && p.source.chosen != nil {
		return nil
	}
	return p.source.found
}

func (p *pool) receive(it offered, ok bool) {
	if ok && it.reused != nil {
		p.job.record(*it.reused)
		p.merger.last = it.Index
		return
	}
	if ok {
		p.merger.last = it.Index
		if p.job.state.Skips[it.Index] != "" {
			p.job.skipWaiting(it.ID, it.Index)
			p.checkPolicy()
			return
		}
		p.fresh = &it
		return
	}
	p.source.found = nil
	switch err := p.source.failed(); {
	case errors.Is(err, errInputGone): // what waits, or is still out, runs all the same: no other run can do more
		p.cutOff = err
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
	p.job.record(events.ItemsSelected{TotalItems: total, Since: p.job.reuse.difference()})
	for _, note := range notes {
		p.job.notice("warning: " + note)
	}
	p.checkPolicy()
}

func (p *pool) haltSelecting(err error) { p.halt(p.job.selectionFailed(err), p.stopGrace()) }

// selectionFailed returns how a run ends whose selection of items has failed.
func (j *job) selectionFailed(err error) runResult {
	v := runResult{state: Failed, reason: "select items: " + err.Error() + j.uncommitted(err), cause: err}
	v.refused = items.Mistaken(err) && j.workflow.Setup == nil
	return v
}

// burst bounds how many items are refused in one go, so that the loop stays awake while the breaker is open.
const burst = 256

// dispatch starts what may start now. It returns true when it stopped before it was done.
func (p *pool) dispatch(now time.Time) bool {
	p.held, p.turns.all, p.turns.free, p.turns.single = false, time.Time{}, time.Time{}, false
	p.endRetryHold(now)
	p.watchWindows(now)
	if p.source.chosen == nil || !now.Before(p.total) {
		p.total = time.Time{}
	}
	if !p.total.IsZero() {
		return false
	}
	if p.job.state.Hold != nil {
		p.returnShared(now)
		return false
	}
	if p.rollOut(); p.halted == nil {
		p.isolate(now)
		if len(p.lone) > 0 && p.loneOut < 0 {
			p.loneOut = p.lone[0].index
			p.due.push(p.lone[0])
			p.lone = p.lone[1:]
		}
	}
	p.findStragglers(now)
	p.serveAsking(now)
	p.serveSteps(now, false)
	for range burst {
		if p.halted != nil || p.agents.Err() != nil || !p.vacant() {
			p.returnShared(now)
			return false
		}
		if p.job.shared != nil && p.seeker.slot == nil {
			p.seek(now)
			return false
		}
		if !p.serveSteps(now, true) && !p.wake(now) && !p.admitNext(now) {
			p.turns.wait(now)
			p.returnShared(now)
			return false
		}
	}
	return true
}

// again has an item wait for its next attempt.
func (p *pool) again(d dueItem) {
	if p.dropSkipped(d) {
		return
	}
	if p.job.killsWorkers(d.index) {
		p.lone = append(p.lone, d)
		return
	}
	p.due.push(d)
}

// slots returns how many agents may be out at once. On a fleet that is no more than it has slots if there are
// workspaces: an agent that waits for a worker would begin at what was merged before the wait.
func (p *pool) slots() int {
	if p.job.space == nil || p.job.fleet == nil {
		return p.job.parallel
	}
	_, n := p.job.fleetSlots.now()
	return min(p.job.parallel, max(n, 1))
}

// vacant reports whether one more agent may run now. It is not to begin far behind what others have done already.
func (p *pool) vacant() bool {
	if p.gates.closed() || p.submitter.full() {
		return false
	}
	slots := p.slots()
	p.merger.backlog = p.merger.backlog && p.mergesNow()
	if p.merger.backlog || slots == 1 && p.mergesNow() {
		return false
	}
	if len(p.job.state.Merging) >= mergesAhead*p.job.parallel && p.mergesNow() {
		return false
	}
	if p.alone {
		return p.running == 0 && p.syncing == 0 && len(p.free) > 0
	}
	busy := len(p.taken)
	if s := p.stage(); s != nil && s.slots > 0 && busy >= s.slots {
		return false
	}
	return len(p.free) > 0 && busy < slots && int64(busy) < p.job.room.Load() && busy < p.job.state.Adapt.AtOnce()
}

// admitNext starts, rejects or holds the next item, as the policy decides. It reports false when there is nothing to do now.
func (p *pool) admitNext(now time.Time) bool {
	if p.turns.keysOf != nil {
		return p.admitByKey(now)
	}
	retrying := p.retryDue(now)
	if !retrying && (p.fresh == nil || !p.mayBegin()) {
		return false
	}
	admission := p.job.state.Policy.Admit("", now)
	if admission.Verdict == errorpolicy.Hold {
		p.held, p.hold = true, admission.Until
		return false
	}
	if at := p.job.state.nextTurn(now); at.After(now) && admission.Verdict == errorpolicy.Run {
		p.held, p.hold, p.turns.single = true, at, true
		return false
	}
	it := p.take(retrying)
	if p.dropped(it.Item, admission, now) {
		return true
	}
	p.start(it, itemKeys{})
	return true
}

// take removes and returns the next item: the retry that is due longest, or else the new one. The data of a retry is read by
// its agent.
func (p *pool) take(retrying bool) offered {
	if retrying {
		d := p.due.pop()
		return offered{Item: items.Item{ID: d.id, Index: d.index}}
	}
	it := *p.fresh
	p.fresh = nil
	return it
}

// start runs one attempt of an item in a free slot. The keys are those of the limits that it takes a turn of.
func (p *pool) start(it offered, keys itemKeys) {
	p.turnTaken()
	a := p.attempt(it.Item, p.job.state.nextNumber(it.Index), p.takeSlot())
	a.Token = p.job.record(events.AgentStarted{
		ItemID: it.ID, ItemIndex: it.Index, AgentID: a.ID, Attempt: a.Number, Worker: a.Worker, Alone: p.alone, Base: a.Base,
		Fleet: p.job.fleet != nil, Suspect: it.Index == p.loneOut, Reason: it.reason, Key: keys.rate, BreakerKey: keys.breaker,
	}).Seq
	p.fly(a, keys)
}

// fly has a worker run an attempt whose start is recorded.
func (p *pool) fly(a agent.Attempt, keys itemKeys) {
	f := &flight{index: a.ItemIndex, number: a.Number, slot: a.Worker, keys: keys, began: time.Now(), placed: p.job.fleet == nil || a.Adopted}
	p.flights[a.Token] = f
	if p.job.state.Times.Limits() {
		heap.Push(&p.watch.clocks, clock{f.began, a.Token})
	}
	if p.job.config.Trace {
		a.Trace = p.job.span().Attempt(a.Token).String()
	}
	p.running++
	p.startWorker(a)
}

// adopt takes over attempts that outlived the run before. If there are more of them than slots, the others have none.
func (p *pool) adopt() {
	for _, index := range slices.Sorted(maps.Keys(p.job.state.Running)) {
		f := p.job.state.Running.at(index)
		if f.Suspect {
			p.loneOut = index
		}
		p.adoptOne(index, f)
	}
}

func (p *pool) adoptOne(index int, f running) {
	slot := 0
	if len(p.free) > 0 {
		slot = p.takeSlot()
	}
	a := p.attempt(items.Item{ID: f.ID, Index: index}, f.Number, slot)
	a.Token, a.Adopted, a.RanOn = f.Token, true, f.Node
	if p.job.space != nil {
		p.inWorkspace(&a, f.Base, f.Resolve)
	}
	p.fly(a, itemKeys{f.Key, f.Ticket.Key})
	if p.job.state.Skips[index] != "" {
		p.flights[a.Token].end(errSkipped)
	}
}

// attempt returns an attempt at an item in a slot.
func (p *pool) attempt(it items.Item, number, slot int) agent.Attempt {
	a := p.template
	a.ItemID, a.ItemIndex, a.Item = it.ID, it.Index, it.Data
	a.ItemTotal = p.job.itemTotal()
	a.Outputs = p.job.printed.granted()
	p.job.state.retried(&a, it.ID)
	a.Number, a.Worker = number, slot
	a.Lost = p.job.fleet != nil && number-1 > p.job.state.Failures[it.Index] // of attempts that are lost there is a number and no failure
	a.CorrelationID = p.job.place.ID + "/" + it.ID
	a.ID = p.job.attemptID(it.ID, number)
	if again := p.job.workflow.ErrorPolicy.RetryConfig; again != nil && len(a.Handler) > 0 {
		a.Again = &agent.Again{Policy: *again, State: p.job.state.retryOf(it.Index)}
	}
	if p.job.space != nil {
		base, resolve := p.job.base(it.Index), p.job.state.Waiting[it.Index].Resolve
		if resolve != "" {
			base = p.job.state.Head
		}
		p.inWorkspace(&a, base, resolve)
	}
	return a
}

// inWorkspace has an attempt begin at a commit in a workspace. resolve is the work whose conflict it resolves; empty: it is none of those.
func (p *pool) inWorkspace(a *agent.Attempt, base, resolve string) {
	a.Base, a.Branch = base, gitspace.Config{JobID: a.JobID}.Branch(a.ItemIndex)
	if resolve != "" {
		a.Resolve, a.Steps, a.Handler = resolve, p.job.workflow.Workspace.Resolve, nil
		a.SetSpec()
	}
}

// startWorker gives an attempt to an idle goroutine, whose stack has grown already, or to a new one. One for a fleet does not keep its goroutine.
func (p *pool) startWorker(a agent.Attempt) {
	if p.job.fleet != nil && a.ItemID != "" {
		token := a.Token // the function is kept while the attempt is out, which holds no attempt then
		p.flights[token].end = func(cause error) { p.job.fleet.End(token, cause) }
		p.submit(a)
		return
	}
	t := task{p.agents, a}
	if f := p.flights[a.Token]; f != nil {
		t.ctx, f.end = context.WithCancelCause(p.agents)
	}
	select {
	case p.idle <- t:
	default:
		p.job.agents.Go(func() error {
			p.job.execute(t.ctx, t.attempt)
			for t := range p.idle {
				p.job.execute(t.ctx, t.attempt)
			}
			return nil
		})
	}
}

// task is an attempt for a goroutine, and what ends it.
type task struct {
	ctx     context.Context
	attempt agent.Attempt
}

// dropped settles an item that is not to start: its retry budget has expired, or the open breaker refuses it. It
// reports whether it is one.
func (p *pool) dropped(it items.Item, admission errorpolicy.Admission, now time.Time) bool {
	again, used := p.job.workflow.ErrorPolicy.RetryConfig, p.job.state.retryOf(it.Index)
	switch {
	case again != nil && again.Expired(used, now):
		p.job.giveUp(it, used)
	case admission.Verdict == errorpolicy.Refuse:
		p.refuse(it)
	default:
		return false
	}
	if it.Index == p.loneOut {
		p.loneOut = -1
	}
	return true
}

// giveUp records the failure of an item whose retry budget expired before its next attempt could begin.
func (j *job) giveUp(it items.Item, used retry.State) {
	last := j.state.Failed[it.Index]
	d := j.state.Policy.GiveUp(errorpolicy.Outcome{ItemID: it.ID, Failure: retry.Failure{Type: last.Type, Message: last.Error, ExitCode: -1}, Retry: used})
	message := "retry budget exhausted: " + last.Error
	j.recordFailed(events.AgentFailed{
		ItemID: it.ID, ItemIndex: it.Index, Attempt: j.state.nextNumber(it.Index) - 1, Step: last.Step, Error: message, ErrorType: last.Type,
		ErrorSignature: retry.Signature(message), Action: d.Action, Reason: d.Reason,
	}, j.whySkipped(false))
}

// refuse dead-letters an item that the open breaker does not admit.
func (p *pool) refuse(it items.Item) {
	const message = "refused: the circuit breaker is open"
	number := p.job.state.nextNumber(it.Index) - 1
	p.job.recordFailed(events.AgentFailed{
		ItemID: it.ID, ItemIndex: it.Index, Attempt: number, Error: message, ErrorType: retry.TypeCircuitOpen,
		ErrorSignature: retry.Signature(message), Action: errorpolicy.DLQ,
	}, "")
}

func (p *pool) handle(m message) {
	switch {
	case m.event != nil:
		p.job.record(p.job.printed.withOutputs(m.event, m.from))
	case m.printed != nil:
		p.haltForOwn(p.job.printed.keep(m.printed))
	case m.park != nil && p.flights[m.park.token] == nil: // it has ended: what a worker says of an attempt and the end of it come by different ways
		m.park.wake <- sameSlot
	case m.park != nil && m.park.step != nil:
		p.askTurn(m.park)
	case m.park != nil && m.park.keeps:
		p.turns.asking.add(p.flights[m.park.token].keys.rate, m.park)
	case m.park != nil:
		p.park(m.park)
	case m.synced != nil:
		p.syncing--
		p.freeSlot(m.synced.slot)
	case m.merged != nil:
		p.merged(m.merged)
	case m.done != nil && m.done.attempt.ItemID == "":
		p.running--
		p.end = m.done
	case m.done != nil && errors.Is(m.done.err, agent.ErrDetached):
		p.running--
		p.release(m.done, p.job.state.Seq)
	case m.done != nil:
		p.running--
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
	if w, ok := p.job.state.Merging[index]; ok && w.Seq == seq {
		p.enqueue(index)
		p.holdSlot(index, p.flights[e.attempt.Token].slot)
	}
	p.release(e, seq)
	p.checkPolicy()
}

// haltForOwn stops the pool after an error of prodigy itself, since the next attempt would fail too. A stop is no such error.
func (p *pool) haltForOwn(err error) {
	if err == nil || p.halted != nil || p.agents.Err() != nil || p.job.stopped(err) {
		return
	}
	if spent, ok := errors.AsType[*spend.JobSpent](err); ok {
		p.halt(runResult{state: Failed, reason: spent.Error(), spent: spent}, untilTheyEnd)
		return
	}
	p.halt(runResult{state: Failed, reason: err.Error(), cause: err}, p.stopGrace())
}

// release frees the slot of an agent that has ended; with strict durability not before its record is on disk.
func (p *pool) release(e *attemptEnd, seq int64) {
	f := p.flights[e.attempt.Token]
	delete(p.flights, e.attempt.Token)
	p.turns.forget(e.attempt.Token)
	p.forgetSteps(e.attempt.Token)
	if p.job.fleet == nil {
		f.end(nil)
	}
	slot := f.slot
	if slot == 0 || p.job.fleet != nil {
		p.unpark(e.attempt.Token)
	}
	if e.attempt.ItemIndex == p.loneOut {
		p.loneOut = -1
	}
	if p.alone && !p.exhausted() {
		p.alone = false // it ran alone only so that the stage of a rollout ends
	}
	if w, ok := p.job.state.Waiting[e.attempt.ItemIndex]; ok && p.halted == nil && w.Retry.Alone {
		p.suspects = append(p.suspects, dueItem{id: w.ID, index: e.attempt.ItemIndex, due: w.Due})
	} else if ok && p.halted == nil {
		p.again(dueItem{id: w.ID, index: e.attempt.ItemIndex, due: w.Due})
	}
	if e.ack != nil {
		p.syncing++
		e.ack <- ack{seq: seq, slot: slot}
		return
	}
	p.freeSlot(slot)
}

// freeSlot gives a slot back for one of those that hold it.
func (p *pool) freeSlot(slot int) {
	if slot == 0 {
		return
	}
	p.job.shared.yield(slot)
	if p.taken[slot]--; p.taken[slot] > 0 {
		return
	}
	delete(p.taken, slot)
	if slot <= p.job.parallel { // else the job was scaled down
		p.free = append(p.free, slot)
	}
}

// checkPolicy stops the pool when the policy says so.
func (p *pool) checkPolicy() {
	if reason, stop := p.job.state.Policy.Stop(); stop {
		p.halt(runResult{state: Failed, reason: reason}, p.stopGrace())
	}
	if a := p.job.state.Alike; a.Items >= maxAlike && p.job.state.Total != a.Items {
		p.halt(runResult{state: Failed, reason: fmt.Sprintf("the first %d items failed alike, as all others would: %s", a.Items, a.Signature)}, p.stopGrace())
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

// halt begins a stop: nothing starts any more, waits end, and running agents have the grace to finish. The first reason is kept; a later
// halt can only shorten the grace.
func (p *pool) halt(v runResult, grace time.Duration) {
	if p.halted == nil {
		p.halted = &v
		p.source.cancel()
		select {
		case <-p.job.halting: // a phase before was halted, and came to its end all the same
		default:
			close(p.job.halting)
		}
	}
	if grace != untilTheyEnd && p.grace == nil {
		p.grace = time.After(grace)
		p.holdFleet()
	}
	if grace == 0 {
		p.kill(stopCause(v))
	}
}

// stopCause ends processes without grace when there is none to be given.
func stopCause(v runResult) error { return fmt.Errorf("%s: %w", v.reason, process.ErrKill) }

// mostSleep is how long the pool sleeps at most: what is due by the wall clock comes earlier than it seemed when that is set forward, and is asked for again when
// it is set back.
const mostSleep = time.Minute

// arm sets the timer to the next moment at which something becomes due that could start then.
func (p *pool) arm(t *time.Timer) {
	if p.halted != nil || p.job.state.Hold != nil {
		t.Stop() // what is due does not start any more
		return
	}
	next := p.gates.next(time.Now(), time.Now().Add(mostSleep))
	sooner := func(due time.Time) {
		if due.Before(next) {
			next = due
		}
	}
	if !p.pause.IsZero() {
		sooner(p.pause)
	}
	if !p.job.recordAt.IsZero() {
		sooner(p.job.recordAt)
	}
	if !p.total.IsZero() {
		sooner(p.total)
		t.Reset(time.Until(next))
		return
	}
	vacant := p.vacant()
	if p.job.shared != nil && vacant {
		if now := time.Now(); p.hasReady(now) { // a slot is asked for, or of no use for now
			vacant = false
			if p.seeker.found == nil {
				sooner(p.seeker.idle)
			}
		}
	}
	sooner(p.nextStep(next, vacant))
	sooner(p.turns.next(next, vacant, p.held))
	sooner(p.nextStraggler(next))
	if vacant && len(p.parked) > 0 {
		sooner(p.parked[0].due)
	}
	switch {
	case p.held && !p.hold.IsZero():
		sooner(p.hold)
	case p.hasDue(time.Now()) && (!p.turns.free.IsZero() || p.turns.retries > 0): // too many retries: turns says when the next may start
	case !p.held && vacant && len(p.due) > 0:
		sooner(p.due[0].due)
	}
	t.Reset(time.Until(next))
}

// totalWait is how long the first agent waits for the end of the selection, if it wants to know how many items there are.
const totalWait = 100 * time.Millisecond

// dueItem is an item that waits for its next attempt. It holds no slot and no goroutine.
type dueItem struct {
	id    string
	index int
	due   time.Time
}

// dueHeap has the item that is due first at its top; of two due at once, the one selected first.
type dueHeap []dueItem

func (h dueHeap) Len() int { return len(h) }

func (h dueHeap) Less(i, k int) bool {
	return cmp.Or(h[i].due.Compare(h[k].due), cmp.Compare(h[i].index, h[k].index)) < 0
}

func (h dueHeap) Swap(i, k int) { h[i], h[k] = h[k], h[i] }

func (h *dueHeap) Push(x any) { *h = append(*h, x.(dueItem)) }

func (h *dueHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func (h *dueHeap) push(d dueItem) { heap.Push(h, d) }

func (h *dueHeap) pop() dueItem { return heap.Pop(h).(dueItem) }

// sameSlot answers an agent that it had better wait in its slot, since so many wait already.
const sameSlot = -1

// maxParked bounds the agents that wait outside the slots: each is a goroutine with its variables.
const maxParked = 1024

// parkHeap has the agent that is due first at its top.
type parkHeap []*parking

func (h parkHeap) Len() int { return len(h) }

func (h parkHeap) Less(i, k int) bool { return h[i].due.Before(h[k].due) }

func (h parkHeap) Swap(i, k int) { h[i], h[k] = h[k], h[i] }

func (h *parkHeap) Push(x any) { *h = append(*h, x.(*parking)) }

func (h *parkHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// park takes the slot of an agent that waits, unless too many wait already.
func (p *pool) park(k *parking) {
	if len(p.parked)+p.turns.woken.len()+p.stepsParked >= maxParked {
		k.wake <- sameSlot
		return
	}
	p.leaveSlot(k)
	heap.Push(&p.parked, k)
}

// unpark removes an agent that ended while it was parked, because of a timeout. One on a fleet may be parked more than once: its pause may not be over here
// when its worker has gone on and asks for something else.
func (p *pool) unpark(token int64) {
	before := len(p.parked)
	p.parked = slices.DeleteFunc(p.parked, func(k *parking) bool { return k.token == token })
	if len(p.parked) < before {
		heap.Init(&p.parked)
	}
}

// wake gives a free slot to the agent that has been due longest. It returns false when none is due.
func (p *pool) wake(now time.Time) bool {
	if len(p.parked) == 0 || p.parked[0].due.After(now) {
		return p.wakeInTurn(now)
	}
	k := heap.Pop(&p.parked).(*parking)
	if k.turn && p.job.state.takesTurns() {
		p.turns.woken.add(p.flights[k.token].keys.rate, k)
		return true
	}
	p.goOn(k)
	return true
}

// goOn has a parked agent go on in a free slot. One that waits for something else since then gets its slot with that.
func (p *pool) goOn(k *parking) {
	f := p.flights[k.token]
	if f.waits != k {
		k.wake <- sameSlot
		return
	}
	f.slot, f.waits, f.began = p.takeSlot(), nil, time.Now()
	k.wake <- f.slot
}

// leaveSlot frees the slot of an agent that waits.
func (p *pool) leaveSlot(k *parking) {
	f := p.flights[k.token]
	if f.waits == nil || f.waits.step == nil { // else this was said before it asked for the turn of a step, and comes after that
		f.waits = k
	}
	p.freeSlot(f.slot)
	f.slot = 0
}

func (p *pool) takeSlot() int {
	slot := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.taken[slot] = 1
	if p.seeker.slot != nil {
		p.job.shared.put(slot, p.seeker.slot)
		p.seeker.slot = nil
	}
	return slot
}

// limits returns the limits in time of the agents of the map phase.
func (j *job) limits() (agent.Limits, error) {
	m := j.workflow.Map
	limit, err := j.config.limit(j.workflow, "agent_timeout_secs", m.AgentLimit())
	return agent.Limits{Agent: limit, Cleanup: m.Timeouts.Cleanup, SkipHandlerOnTimeout: m.Timeouts.Action != ""}, err
}

// suspects returns the items that are to run alone, those first that were alone at fewer deaths.
func (j *job) suspects() []dueItem {
	var found []dueItem
	for index, w := range j.state.Waiting {
		if (j.suspect(index) || w.Retry.Alone) && index < j.store.Len() {
			found = append(found, dueItem{id: w.ID, index: index, due: w.Due})
		}
	}
	slices.SortFunc(found, func(a, b dueItem) int {
		return cmp.Or(cmp.Compare(j.state.Crashes[a.index].Alone, j.state.Crashes[b.index].Alone), cmp.Compare(a.index, b.index))
	})
	return found
}

// quiet is how long nothing runs before a suspect does.
func (j *job) quiet(index int) time.Duration {
	return time.Second << min(2*j.state.Crashes[index].Alone, 4)
}

// due returns the items that waited for their next attempt when the run before ended.
func (j *job) due() dueHeap {
	var due dueHeap
	for index, w := range j.state.Waiting {
		if index >= j.store.Len() {
			continue // a power loss took it from the store: the selection will bring it again
		}
		if j.suspect(index) || w.Retry.Alone {
			continue
		}
		due.push(dueItem{id: w.ID, index: index, due: w.Due})
	}
	return due
}

// itemTotal is how many items there are, 0 while that is unknown. The values of a command line are known from the first on.
func (j *job) itemTotal() int {
	if m := j.workflow.Map; m.ItemsFromArgs {
		return len(m.Input.Items)
	}
	return j.state.Total
}
