package mapreduce

import (
	"container/heap"
	"fmt"
	"slices"
	"strings"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/process"
)

// What people ask of a running job comes as requests, from any goroutine, to the owner of the job. The owner
// records a request, and then does it; who asked gets the answer when the record is durable. A run that dies in
// between leaves the record, which the state of the job is folded from.

// ownerTime is how long a request waits for the owner, who does other things between the phases.
const ownerTime = 10 * time.Second

// ask has the owner do a request. It runs on the goroutine of who asks.
func (j *owner) ask(r job.Request) job.Answer {
	call := controlCall{request: r, reply: make(chan controlReply, 1)}
	busy := time.NewTimer(ownerTime)
	defer busy.Stop()
	select {
	case j.controls <- call:
	case <-j.closing:
		return job.Refused("the job is ending: request ignored")
	case <-busy.C:
		return job.Refused("the job is between two phases: try again")
	}
	reply := <-call.reply
	if reply.seq > 0 {
		reply.Recorded = true
		if err := j.Log.Wait(reply.seq); err != nil {
			return job.Refused("the request was not recorded: %v", err)
		}
	}
	return reply.Answer
}

// listen lets requests come in, until finish.
func (j *owner) listen() {
	if j.config.Control == nil {
		return
	}
	stop, err := j.config.Control(j.place, j.ask)
	if err != nil {
		j.notice(fmt.Sprintf("other processes cannot control the job (pause, scale, skip and so on): %v", err))
	}
	j.unlisten = stop
}

// control does a request that has come to the owner, and answers it.
func (p *pool) control(c controlCall) {
	before := p.Seq
	answer := p.request(c.request)
	seq := p.Seq
	if seq == before {
		seq = 0
	}
	c.reply <- controlReply{answer, seq}
}

func (p *pool) request(r job.Request) job.Answer {
	if p.halted != nil && r.Do != job.Cancel {
		return job.Refused("the job is stopping: %s", p.halted.Reason)
	}
	switch r.Do {
	case job.Pause:
		return p.pauseStarts(r)
	case job.Continue:
		return p.continueStarts(r)
	case job.Toggle:
		if p.Limits.Pause.Hold != nil {
			return p.continueStarts(r)
		}
		return p.pauseStarts(r)
	case job.Drain:
		p.Record(events.DrainRequested{By: r.By})
		p.order(Result{State: jobs.Stopped, Reason: "drained by " + r.By, AsAsked: true}, untilTheyEnd)
		p.holdFleet()
		return job.Done("draining: no new items start, %s; then the run ends", p.stillRunning())
	case job.Cancel:
		return p.cancel(r)
	case job.Scale:
		return p.scale(r)
	case job.Skip:
		return p.skip(r)
	case job.RetryNow:
		return p.retryNow(r)
	}
	return job.Refused("unknown request %q", string(r.Do))
}

// stillRunning says what runs.
func (p *pool) stillRunning() string {
	switch n := p.runners.running; {
	case n == 0 || p.single.between:
		return "nothing is running"
	case p.flights == nil:
		return "a step is still running"
	default:
		return check.Counted(n, "item") + " still running"
	}
}

func (p *pool) pauseStarts(r job.Request) job.Answer {
	if h := p.Limits.Pause.Hold; h != nil {
		return job.Done("already paused by %s since %s", h.By, h.Since.Local().Format(time.TimeOnly))
	}
	p.Record(events.PauseRequested{By: r.By})
	if p.fleet != nil {
		p.fleet.TakeBack()
	}
	return job.Done("paused: no new items start, %s", p.stillRunning())
}

func (p *pool) continueStarts(r job.Request) job.Answer {
	if p.Limits.Pause.Hold == nil {
		return job.Done("the job is not paused")
	}
	p.Record(events.ContinueRequested{By: r.By})
	p.restartClocks()
	return job.Done("continued")
}

func (p *pool) cancel(r job.Request) job.Answer {
	if p.Cancelled != "" {
		return job.Done("already being cancelled by %s", p.Cancelled)
	}
	if p.halted != nil && p.halted.State != jobs.Stopped {
		return job.Refused("the job is ending: %s", p.halted.Reason)
	}
	p.Record(events.CancelRequested{By: r.By})
	v := Result{State: jobs.Cancelled, Reason: "cancelled by " + r.By}
	if p.halted != nil {
		*p.halted = v
	}
	p.register.Stopping()
	p.order(v, p.config.Grace)
	return job.Done("cancelled: %s, and the run ends within its grace", p.stillRunning())
}

// order ends the job with v, also if the phase that runs comes to its end before it notices.
func (p *pool) order(v Result, grace time.Duration) {
	p.ordered.Store(&v)
	p.halt(v, grace)
}

func (p *pool) scale(r job.Request) job.Answer {
	if p.workflow.Map == nil {
		return job.Refused("the job has no map phase, so it has no slots")
	}
	was, n := p.parallel, r.Slots
	if r.Change != 0 {
		n = max(was+r.Change, 1)
	}
	most, why := maxFleetSlots, "a fleet supports"
	if p.fleet == nil {
		c := process.CapacityNow()
		most, why = c.Most, c.Limit+" allows"
	}
	switch {
	case n < 1:
		return job.Refused("slots must be at least 1, got %d; to pause the job: prodigy pause %s", n, p.place.ID)
	case n > most:
		return job.Refused("%d slots are more than %s: use at most %d", n, why, most)
	case n == was && (!p.elastic || n == p.ceiling()):
		return job.Done("the job already has %s", slots(n))
	}
	p.Record(events.ScaleRequested{MaxParallel: n, Was: was, By: r.By})
	if p.elastic {
		p.recorded = n
		p.fitFleet(time.Now())
	} else {
		p.resize(n)
	}
	return job.Done("%s instead of %d", slots(n), was)
}

func (p *pool) skip(r job.Request) job.Answer {
	inTurn := map[int]bool{}
	for it := range p.starts.all() {
		inTurn[it.Index] = !p.gone[it.Index]
	}
	answer := p.recordSkips(r, true, "skipped", func(it job.Item) {
		_, runs := p.Running[it.Index]
		switch {
		case !runs && p.forget(it.Index, inTurn):
			p.skipWaiting(it.ID, it.Index)
		case runs:
			if f := p.flights[p.Running[it.Index].Token]; f != nil {
				f.end(errSkipped)
			}
		} // else the source has not given it yet, and it is settled then
	})
	p.checkPolicy()
	return answer
}

// recordSkips records that each of the items is to be skipped, and calls then with it, or says why they cannot be.
// Work that waits to be merged cannot while the job runs: the merger may have it.
func (j *owner) recordSkips(r job.Request, runs bool, done string, then func(job.Item)) job.Answer {
	if j.Store == nil {
		return job.Refused("the job has no items")
	}
	var wanted []job.Item
	var ids, kept []string
	named := map[int]bool{}
	for _, it := range r.Items {
		if named[it.Index] {
			continue
		}
		named[it.Index] = true
		wanted, ids = append(wanted, it), append(ids, it.ID)
		recorded, err := j.Store.At(it.Index)
		_, merging := j.Merging[it.Index]
		switch {
		case err != nil || recorded.ID != it.ID:
			return job.Refused("the job has no item %s at index %d", it.ID, it.Index)
		case j.Status.At(it.Index) != errorpolicy.Pending:
			kept = append(kept, it.ID+" already has an outcome")
		case merging && runs:
			kept = append(kept, it.ID+" is done, and its changes are waiting to merge")
		case j.Skips[it.Index] != "":
			kept = append(kept, it.ID+" is already marked to be skipped")
		}
	}
	if len(kept) > 0 {
		return job.Refused("nothing was skipped: %s", strings.Join(kept, "; "))
	}
	for _, it := range wanted {
		j.Record(events.SkipRequested{ItemID: it.ID, ItemIndex: it.Index, By: r.By})
		then(it)
	}
	return job.Done("%s: %s", done, check.Few(ids, idsShown))
}

// Skip has items of a job that does not run be skipped when it goes on: also those whose work waits to be merged.
func Skip(c Config, place jobs.Job, r job.Request) (job.Answer, error) {
	j, err := openJob(c, place)
	if err != nil {
		return job.Answer{}, err
	}
	answer := j.recordSkips(r, false, "will be skipped after a resume", func(job.Item) {})
	return answer, j.close()
}

// idsShown is how many items an answer names.
const idsShown = 10

// skipWaiting settles an item that is not running.
func (j *owner) skipWaiting(id string, index int) {
	j.recordSkipped(events.AgentFailed{AttemptID: j.notRun(id, index)})
}

// dropSkipped settles an item that is to wait for its next attempt, if somebody has asked to skip it. It
// reports whether they have.
func (p *pool) dropSkipped(d dueItem) bool {
	if p.Skips[d.index] == "" {
		return false
	}
	p.skipWaiting(d.id, d.index)
	return true
}

// forget removes an item that has not begun, or that waits for its next attempt, from what is to start; inTurn
// are those that wait for the turn of their keys. It reports whether the item was there: else the source has
// not given it yet, or it runs.
func (p *pool) forget(index int, inTurn map[int]bool) bool {
	s := &p.suspects
	if p.fresh != nil && p.fresh.Index == index {
		p.fresh = nil
		return true
	}
	same := func(d dueItem) bool { return d.index == index }
	n := len(s.lone) + len(s.waiting)
	s.lone, s.waiting = slices.DeleteFunc(s.lone, same), slices.DeleteFunc(s.waiting, same)
	switch at := slices.IndexFunc(p.due, same); {
	case len(s.lone)+len(s.waiting) < n:
		return true
	case at >= 0:
		heap.Remove(&p.due, at)
	case inTurn[index]:
		p.gone[index] = true
	default:
		return false
	}
	s.ended(index)
	return true
}

func (p *pool) retryNow(r job.Request) job.Answer {
	e := events.RetryNowRequested{By: r.By}
	for _, it := range r.Items {
		e.ItemIDs = append(e.ItemIDs, it.ID)
	}
	now := time.Now()
	n, parked := 0, slices.Concat(p.resting, p.parked)
	parked = slices.DeleteFunc(parked, func(k *parking) bool { return !k.retries || !k.due.After(now) || !e.Names(k.id) })
	for _, k := range parked {
		if p.fleet == nil || k.id == "" { // else it waits on its worker
			n++
		}
	}
	for _, w := range p.Waiting {
		if w.Due.After(now) && e.Names(w.ID) {
			n++
		}
	}
	var elsewhere []int64 // attempts that wait on workers of a fleet for the next try of a step
	if p.fleet != nil {
		for token, f := range p.flights {
			id := p.Running[f.index].ItemID
			if k, retrying := p.Retrying[id]; retrying && k.Due.After(now) && e.Names(id) {
				elsewhere = append(elsewhere, token)
			}
		}
	}
	n += len(elsewhere)
	if n == 0 {
		if len(r.Items) > 0 {
			return job.Refused("none of these items is waiting to retry: %s", check.Few(e.ItemIDs, idsShown))
		}
		return job.Done("no item is waiting to retry")
	}
	p.Record(e)
	for i, d := range p.due {
		if e.Names(d.id) && d.due.After(now) {
			p.due[i].due = now
		}
	}
	heap.Init(&p.due)
	for _, k := range parked {
		k.due = now
	}
	heap.Init(&p.parked)
	heap.Init(&p.resting)
	if len(elsewhere) > 0 {
		p.fleet.Hurry(elsewhere)
	}
	return job.Done("due now: %s", check.Counted(n, "retry"))
}
