package view

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/retry"
)

// Fold returns the view of a job after all its records. A torn last record is ignored.
func Fold(records iter.Seq2[events.Record, error]) (*Job, error) {
	j := New()
	return j, events.Each(records, j.Apply)
}

// Follow sends the records of the log of a job, then new ones as they come, until the job or ctx ends. It does so on a
// goroutine of a group.
func Follow(ctx context.Context, g interface{ Go(do func() error) }, job jobs.Job) <-chan events.Record {
	records := make(chan events.Record, 256)
	g.Go(func() error {
		defer close(records)
		for r, err := range events.FollowRecords(ctx, job.EventsDir(), job.Running) {
			if err != nil {
				return err
			}
			select {
			case records <- r:
			case <-ctx.Done():
				return nil
			}
		}
		return nil
	})
	return records
}

// Apply adds a record.
func (j *Job) Apply(r events.Record) {
	if events.BetweenRuns(r.Event) {
		return
	}
	if j.Began.IsZero() {
		j.ID, j.Began, j.RunBegan, j.Runs = r.JobID, r.Time, r.Time, 1
	}
	j.Last = r.Time
	switch e := r.Event.(type) {
	case events.JobStarted:
		j.started(e)
	case events.JobResumed:
		j.ReduceStale, j.ReduceHeld, j.Rates, j.Broker = false, false, e.Rates, e.Broker
		j.capped(e.MaxCostUSD)
		j.resume(r.Time, e)
	case events.JobCompleted:
		j.ReduceStale, j.ReduceHeld = e.ReduceStale, e.ReduceHeld
		j.Head, j.Branch, j.Into = cmp.Or(e.Head, j.Head), e.Branch, e.Into
	case events.ScaleRequested:
		j.MaxParallel, j.OnFleet, j.Workers = e.MaxParallel, e.Fleet, e.Workers
	case events.RetryNowRequested:
		j.retryNow(r.Time, e)
	case events.PhaseStarted:
		j.Phase, j.PhaseBegan, j.StepsDone = e.Phase, r.Time, 0
		j.atItems, j.StepNow, j.Printed = e.Phase == "map", "", ""
		j.Phases = append(j.Phases, Phase{Name: e.Phase, Began: r.Time})
	case events.PhaseCompleted:
		j.Head = cmp.Or(e.Head, j.Head)
		for i, p := range slices.Backward(j.Phases) { // reduce may run again after a retry of dead letters
			if p.Name == e.Phase {
				j.Phases[i].Done, j.Phases[i].Duration = true, time.Duration(e.DurationMS)
				break
			}
		}
	case events.StepCompleted:
		j.StepsDone++
		j.StepNow, j.Printed = "", ""
		j.stepCompleted(r.Time, e)
	case events.StepFailed:
		if e.ItemID == "" && e.Action == "stop" { // one after which the phase continues has a StepCompleted as well
			j.addStep(Step{
				Phase: j.Phase, Name: e.Step, Ended: r.Time, Tries: e.Attempts, Outcome: StepFailed, Error: e.Error,
				Outputs: e.Outputs, reason: e.Reason,
			})
		}
	case events.ItemsSelected:
		j.Total, j.Complete = e.TotalItems, true
	case events.StepRetrying:
		due := r.Time.Add(time.Duration(e.DelayMS))
		j.retried(Retry{e.ItemID, e.Step, e.ErrorType, e.Error, due})
		if e.ItemID == "" {
			j.tries[e.Step] = e.Attempt
		}
		j.at(e.ItemID, e.Step, due)
	case events.ConcurrencyChanged:
		j.Limit = &e
	case events.AgentUsage:
		j.used(e)
	default:
		j.applyAgent(r)
	}
	j.hold(r)
	j.applyMerge(r)
	if end, ok := events.RunEndOf(r.Event); ok {
		j.end(r.Time, end.State, end.Reason)
	}
	if scope, t, ok := events.Transition(r.Event); ok {
		j.change(r, scope, t)
	}
}

// applyAgent adds a record about an attempt at an item.
func (j *Job) applyAgent(r events.Record) {
	switch e := r.Event.(type) {
	case events.AgentStarted:
		delete(j.waiting, e.ItemIndex)
		j.found(e.ItemIndex)
		j.atItems = true
		a := &Attempt{
			ItemID: e.ItemID, Index: e.ItemIndex, Number: e.Attempt, Worker: e.Worker,
			Fleet: e.Fleet, Began: r.Time, Step: j.printed[e.ItemID].step,
		}
		j.running[e.ItemIndex], j.byID[e.ItemID] = a, a
		j.slots = max(j.slots, e.Worker)
	case events.AgentStraggling:
		j.Stragglers.Found++
		if a := j.running[e.ItemIndex]; a != nil && a.Number == e.Attempt {
			a.Straggling = true
		}
	case events.AgentPlaced:
		if a := j.running[e.ItemIndex]; a != nil && a.Number == e.Attempt {
			a.Place, a.Placed = e.Place, r.Time
		}
	case events.AgentProgress:
		j.Step(e)
	}
	if end, ok := events.EndOf(r.Event); ok {
		j.ended(r, end)
	}
}

// ended takes the end of an attempt, or of an item without one.
func (j *Job) ended(r events.Record, end events.End) {
	if end.How == events.Superseded {
		return
	}
	if end.How == events.Reused {
		j.found(end.Index)
		j.Reused++
		j.speed.before++ // it says nothing of how fast items are done
		j.count(end.Index, errorpolicy.Succeeded)
		return
	}
	a := j.running[end.Index]
	j.stopped(end.Index)
	if end.How == events.Lost {
		j.Lost++
	}
	if end.How.GivenBack() {
		return
	}
	if a != nil { // it is not one that was rejected by the breaker
		if end.Node != "" { // one that ends soon is placed nowhere before
			a.Place = end.Place
		}
		a.Due, a.Duration, a.Type, a.Step = time.Time{}, end.Took, end.Type, cmp.Or(end.Step, a.Step)
		j.Durations.Add(end.Took)
		j.slow(*a)
	}
	if e, failed := r.Event.(events.AgentFailed); failed {
		j.failed(r.Time, e)
	} else if !end.Settles {
		j.merging[end.Index] = Queued{end.ID, end.Index, r.Time, r.Seq}
	}
	if end.Settles {
		j.settle(r.Time, end.Index, end.Status())
	}
}

// started takes the first record of a job. Its number of items is absent while they are still being selected.
func (j *Job) started(e events.JobStarted) {
	j.resumed = false
	j.Workflow, j.Mode, j.Version, j.MaxParallel = e.Workflow, e.Mode, e.Version, e.MaxParallel
	j.Base, j.Head, j.Rates, j.Broker = e.Base, e.Base, e.Rates, e.Broker
	j.capped(e.MaxCostUSD)
	if e.TotalItems != nil {
		j.Total = *e.TotalItems
	}
}

// capped notes what a command line said that agents may cost.
func (j *Job) capped(u *limit.USD) {
	if u != nil {
		j.MaxCost = *u
	}
}

// resume begins another run: nothing is in flight any more except what is attached, and the rate is measured anew.
func (j *Job) resume(now time.Time, e events.JobResumed) {
	j.State, j.Reason, j.RunBegan = jobs.Running, "", now
	for name, r := range j.held {
		if _, quota := r.Event.(events.QuotaPaused); !quota && name != events.ByRollout {
			j.lift(now, name)
		}
	}
	j.Merges.Verifying = nil
	j.Letters = e.Reason == events.ForDeadLetters
	if j.resumed || e.Phase != "" && e.Phase != j.Phase {
		j.Phase, j.PhaseBegan, j.StepsDone = e.Phase, now, e.StepsDone
	}
	// Older logs have no phase.
	j.atItems = j.Letters || e.Phase == "map" || e.Phase == "" && e.Completed+e.Pending+e.InFlight > 0
	if !j.resumed || j.Runs > 1 {
		j.Runs++
	}
	for index := range j.running {
		if !e.IsAttached(index) { // it died with the run before
			j.stopped(index)
		}
	}
	for index := range j.waiting {
		// Its retry from the queue did not finish, and it is a dead letter as before.
		if j.status.At(index).DeadLetter() {
			delete(j.waiting, index)
		}
	}
	j.slots = 0
	n := e.Completed + e.Pending + e.InFlight
	j.Total = max(j.Total, n)
	j.Complete = j.Complete || j.resumed && n == j.known && n > 0
	j.speed = speed{before: j.Counts.Finished()}
}

// end ends a run. What was in flight is not any more, and the requests of people are done with.
func (j *Job) end(now time.Time, s jobs.State, reason string) {
	j.State, j.Reason = s, reason
	j.lift(now, events.ByPerson)
	j.lift(now, events.ByEnd)
	j.Merges.Verifying = nil
	j.halt()
}

// failed takes a failed attempt.
func (j *Job) failed(now time.Time, e events.AgentFailed) {
	delete(j.merging, e.ItemIndex)
	if e.ErrorType == retry.TypeMergeConflict {
		j.Merges.Collisions.add(Failure{now, e})
	}
	if e.Action.RunsAgain() {
		j.retried(Retry{e.ItemID, e.Step, e.ErrorType, e.Error, *e.RetryAt})
		j.waiting[e.ItemIndex] = waitingItem{e.ItemID, *e.RetryAt}
		return
	}
	delete(j.waiting, e.ItemIndex) // it may have been skipped while it waited
	j.Failures.add(now, e)
	j.found(e.ItemIndex)
}

// retried counts a retry by the type of the failure before.
func (j *Job) retried(r Retry) {
	j.Retries++
	j.Retried.Types[r.Type]++
	j.Retried.Last = r
}

// slowestKept is the number of slowest attempts that are kept.
const slowestKept = 5

// slow keeps an attempt that has ended if it is among the slowest.
func (j *Job) slow(a Attempt) {
	at := len(j.Slowest)
	for at > 0 && j.Slowest[at-1].Duration < a.Duration {
		at--
	}
	if at == slowestKept {
		return
	}
	j.Slowest = slices.Insert(j.Slowest, at, a)
	j.Slowest = check.First(j.Slowest, slowestKept)
}

// settle gives an item its end and takes back the one it had before. When the records from before were not
// shown, an item that is run again as a dead letter had failed.
func (j *Job) settle(now time.Time, index int, s errorpolicy.Status) {
	j.count(index, s)
	j.speed.add(now)
}

// count is settle for an item that took no time.
func (j *Job) count(index int, s errorpolicy.Status) {
	if s == errorpolicy.Succeeded {
		j.Failures.forget(index)
	}
	before := j.status.At(index)
	if before == errorpolicy.Pending && j.resumed && j.Letters {
		before = errorpolicy.Dead
	}
	j.status.Set(index, s)
	j.Counts.Move(before, s)
}

// found notes that there is an item with this index.
func (j *Job) found(index int) { j.Total = max(j.Total, index+1) }

// Step notes the step that an attempt has reached, as Apply does for logs that record steps.
func (j *Job) Step(e events.AgentProgress) { j.at(e.ItemID, e.Step, time.Time{}) }

// at notes the step that an item has reached, and when it is due if it waits.
func (j *Job) at(itemID, step string, due time.Time) {
	if a := j.byID[itemID]; a != nil {
		a.Step, a.Due = step, due
	}
}

// applyMerge adds a record about the merge queue.
func (j *Job) applyMerge(r events.Record) {
	m := &j.Merges
	switch e := r.Event.(type) {
	case events.WorktreeMerged:
		for _, index := range e.ItemIndexes {
			delete(j.merging, index)
			j.settle(r.Time, index, errorpolicy.Succeeded)
		}
		j.Merged += len(e.ItemIndexes)
		j.Head = e.Head
	case events.VerifyStarted:
		m.Verifying = &Verify{Began: r.Time, VerifyStarted: e}
	case events.VerifyCompleted:
		v := m.Verifying
		if m.Verifying = nil; v == nil { // its beginning was not shown
			v = &Verify{Began: r.Time.Add(-time.Duration(e.DurationMS))}
			v.Commit = e.Commit
		}
		v.End = e
		m.Verifies.add(*v)
	}
}

// hold notes what an event holds back, or lifts.
func (j *Job) hold(r events.Record) {
	h, ok := events.HoldOf(r.Event)
	switch {
	case !ok:
	case h.Lifted:
		j.lift(r.Time, h.Name)
	default:
		j.held[h.Name] = r
		j.HoldPeriods.begin(h.Name, r)
	}
	if e, ok := r.Event.(events.QuotaPaused); ok && !e.Near {
		if a := j.byID[e.Item]; a != nil {
			a.Due = e.Until // it met the limit
		}
	}
}

// lift ends what holds the job back.
func (j *Job) lift(now time.Time, name string) {
	delete(j.held, name)
	j.HoldPeriods.end(name, now)
}

// retryNow makes due what waits for its next attempt or try.
func (j *Job) retryNow(now time.Time, e events.RetryNowRequested) {
	for id, a := range j.byID {
		if e.Names(id) && a.Due.After(now) {
			a.Due = now
		}
	}
	for index, it := range j.waiting {
		if it.due.After(now) && e.Names(it.id) {
			j.waiting[index] = waitingItem{it.id, now}
		}
	}
	if last := &j.Retried.Last; last.Due.After(now) && e.Names(last.ItemID) {
		last.Due = now
	}
}

// used adds what an agent has used. One that met the limit of its plan waits for the end of the pause, which
// another has begun.
func (j *Job) used(e events.AgentUsage) {
	j.Spent.Add(e.Use())
	if e.Outcome == string(retry.TypeQuota) || e.Outcome == string(retry.TypeAuth) {
		var until time.Time
		for _, p := range j.Paused() {
			if p.Until.After(until) {
				until = p.Until
			}
		}
		j.at(e.ItemID, e.Step, until)
	}
	if e.ItemID == "" {
		return
	}
	if j.costs == nil {
		j.costs = map[int]*ItemCost{}
	}
	if j.costs[e.ItemIndex] == nil {
		j.costs[e.ItemIndex] = &ItemCost{ItemID: e.ItemID, Index: e.ItemIndex}
	}
	j.costs[e.ItemIndex].Add(e.Use())
}

// PausedBefore notes what agents waited for when the run before ended, of a job whose records from before are
// not shown.
func (j *Job) PausedBefore(list []events.QuotaPaused, now time.Time) {
	for _, e := range list {
		j.hold(events.Record{Time: now, Event: e})
	}
}

// stopped removes an item from the running ones.
func (j *Job) stopped(index int) {
	if a := j.running[index]; a != nil {
		delete(j.printed, a.ItemID)
		delete(j.byID, a.ItemID)
		delete(j.running, index)
	}
}

// halt removes all running items.
func (j *Job) halt() {
	clear(j.running)
	clear(j.byID)
	clear(j.printed)
}
