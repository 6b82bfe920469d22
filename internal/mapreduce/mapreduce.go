// Package mapreduce runs a job: phases, the pool, the loop that owns the job.
//
// One goroutine owns what package job knows of the job, and is the only one that records events; agents own nothing
// and send it messages.
//
// All that a run holds is in owner.go, and all that the map phase holds while it is at work in pool.go. The other files
// are what is done with that, each about one thing: open.go makes an owner, mapreduce.go runs its phases, map.go has the
// loop of the map phase, dispatch.go says what starts next and flights.go starts it. What comes back is a message, and
// delivers itself.
package mapreduce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/dlq"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/gitspace"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/reuse"
	"prodigy/internal/workflow"
)

// Run runs a new job from a parsed workflow and the source it was parsed from. The error is a
// *workflow.InvalidError when nothing was run, else for what prodigy itself could not do; a job that fails is a
// Result.
func Run(ctx context.Context, c Config, w *workflow.Workflow, source []byte) (Result, error) {
	b, err := prepare(ctx, c, w)
	if err != nil {
		return Result{}, err
	}
	j, err := createJob(ctx, c, w, source, b)
	if err != nil {
		return Result{}, err
	}
	v, err := j.run(ctx)
	return j.finish(ctx, v, err)
}

// Resume continues a job where its log ends. It runs nothing if the job has completed.
func Resume(ctx context.Context, c Config, place jobs.Job) (Result, error) {
	j, err := openJob(c, place)
	if err != nil {
		return Result{}, err
	}
	if err := cmp.Or(j.refuseCancelled(), j.refuseUnproven()); err != nil {
		return j.abandon(err)
	}
	if j.Ended == jobs.Completed {
		return j.finish(ctx, Result{State: jobs.Completed, Reason: "the job had already completed; nothing to do"}, nil)
	}
	mapped := j.Phases["map"]
	if err := j.beginAgain(ctx, mapped == nil || !mapped.Completed); err != nil {
		return j.abandon(err)
	}
	if reason, stopped := j.Policy.Stop(); stopped {
		j.notice("the error policy stopped the job: " + reason + "; its counters restart at zero")
	}
	if err := j.recordResumed(ctx, events.ForResume, j.Reducing); err != nil {
		return j.abandon(err)
	}
	j.quarantine()
	v, err := j.run(ctx)
	return j.finish(ctx, v, err)
}

// RetryDead runs the chosen dead letters of a job again, each as a new agent; with reduce, or if the workflow
// says so, it then runs the reduce phase again over all results. When none is chosen and there is no reduce to
// run, the job is left alone and the Result has no State.
func RetryDead(ctx context.Context, c Config, place jobs.Job, choose Chooser, reduce bool) (Result, error) {
	j, err := openJob(c, place)
	if err != nil {
		return Result{}, err
	}
	if err := j.refuseCancelled(); err != nil {
		return j.abandon(err)
	}
	ids, err := j.chosen(choose)
	// The job has completed without the phases after the map phase, since their condition did not hold.
	held := j.workflow.ReduceWhen != nil && j.Ended == jobs.Completed && j.Total > 0 && !j.reduced()
	reduce = reduce || j.workflow.ReduceOnRetry && !held && (len(ids) > 0 || j.ReduceStale)
	if err == nil && len(ids) == 0 && !reduce {
		err = j.RefreshResults()
		return Result{Job: place, ReduceStale: j.ReduceStale, ReduceHeld: held}, errors.Join(err, j.close())
	}
	if err == nil {
		err = j.beginAgain(ctx, len(ids) > 0)
	}
	var work *gitspace.Work
	if err == nil && c.With != "" {
		work, err = j.adopt(ctx, ids)
	}
	if err != nil {
		return j.abandon(err)
	}
	v, err := j.retryDead(ctx, ids, reduce, work)
	return j.finish(ctx, v, err)
}

// abandon closes a job of which nothing was run.
func (j *owner) abandon(err error) (Result, error) {
	return Result{Job: j.place}, errors.Join(err, j.close())
}

// refuseCancelled returns an error for a job that was cancelled, unless it is to go on all the same.
func (j *owner) refuseCancelled() error {
	if j.Cancelled == "" || j.config.Force {
		return nil
	}
	return job.Refusef("job %[1]s was cancelled by %[2]s; to resume it anyway: prodigy resume %[1]s --force",
		j.place.ID, j.Cancelled)
}

// beginAgain opens what the job runs with, for another run. items says whether that has items to run. A job
// with workspaces that died before its first record begins as a new one.
func (j *owner) beginAgain(ctx context.Context, items bool) error {
	n := 0 // attempts that workers of a fleet may still run
	for _, f := range j.Running {
		if f.Fleet {
			n++
		}
	}
	if (n > 0 || items && j.Broker != "") && !j.config.OnFleet && !j.config.Abandon {
		return &OnFleetError{JobID: j.place.ID, Broker: j.Broker, Attempts: n}
	}
	if !j.isolated() || j.Seq > 0 {
		return j.equip(ctx, gitspace.Start{})
	}
	c := j.config
	c.AllowDirty = true // what it was then cannot be known
	start, err := StartOf(ctx, c, j.workflow, j.parallel)
	if err != nil {
		return err
	}
	return j.begin(ctx, start)
}

// run runs what is left of the job's phases.
func (j *owner) run(ctx context.Context) (Result, error) {
	j.listen()
	if j.workflow.Mode == workflow.Standard {
		v, err := j.runPhase(ctx, "", &workflow.Phase{Commands: j.workflow.Commands}, nil)
		if err != nil || v.State != jobs.Completed || j.workflow.Merge == nil {
			return v, err
		}
		return j.runPhase(ctx, "merge", j.workflow.Merge, nil)
	}
	if v, err := j.runPhase(ctx, "setup", j.workflow.Setup, nil); err != nil || v.State != jobs.Completed {
		return v, err
	}
	if v, err := j.runMap(ctx); err != nil || v.State != jobs.Completed {
		return v, err
	}
	return j.runLast(ctx)
}

// runLast runs the phases after the map phase. It runs none if no items were selected.
func (j *owner) runLast(ctx context.Context) (Result, error) {
	if j.Total == 0 {
		return Result{State: jobs.Completed, Reason: "no items selected"}, nil
	}
	for _, name := range []string{"reduce", "merge"} {
		p := j.workflow.Reduce
		if name == "merge" {
			p = j.workflow.Merge
		}
		if p == nil {
			continue
		}
		if m := j.Policy.Metrics(); !j.Reducing && !j.reduced() {
			if unmet := j.workflow.ReduceWhen.Unmet(m.Successful, m.TotalItems); unmet != "" {
				j.Record(events.PhaseSkipped{Phase: name, Reason: unmet})
				return Result{State: jobs.Completed, Reason: name + " did not run: " + unmet, ReduceHeld: true}, nil
			}
		}
		result, err := j.mapResult()
		if err != nil {
			return Result{}, err
		}
		if v, err := j.runPhase(ctx, name, p, result); err != nil || v.State != jobs.Completed {
			return v, err
		}
	}
	return Result{State: jobs.Completed}, nil
}

// reduced reports whether a phase after the map phase has begun.
func (j *owner) reduced() bool {
	return j.Phase("reduce").Started || j.Phase("merge").Started
}

// lastDue returns the first phase after the map phase that has never completed, because its condition did not hold or
// the job ended before. If all have, it returns "".
func (j *owner) lastDue() string {
	switch {
	case j.Total == 0:
	case j.workflow.Reduce != nil && !j.Phase("reduce").Completed:
		return "reduce"
	case j.workflow.Merge != nil && !j.Phase("merge").Completed:
		return "merge"
	}
	return ""
}

// retryDead runs dead letters again, and the phases after the map phase if they are asked for or due: the latter once
// no dead letter is left, or their condition holds. Work takes the place of what an agent would do for the one item.
func (j *owner) retryDead(ctx context.Context, itemIDs []string, reduce bool, work *gitspace.Work) (Result, error) {
	reduce = reduce || j.Reducing
	next := j.lastDue()
	// A reduce that has begun begins again, since items may succeed that it does not know.
	anew := reduce || next != "" && j.reduced() && !j.Phase("reduce").Completed
	if err := j.recordResumed(ctx, events.ForDeadLetters, anew); err != nil {
		return Result{}, err
	}
	if reduce {
		next = "reduce"
	}
	indexes, tried := make([]int, 0, len(itemIDs)), make(map[int]int, len(itemIDs))
	for _, id := range itemIDs {
		e, ok := j.Queue.Get(id)
		_, attached := j.Running[e.ItemIndex]
		_, merging := j.Merging[e.ItemIndex]
		switch {
		case merging: // its work is merged first of all
			tried[e.ItemIndex] = j.LastTry[e.ItemIndex]
		case ok && !attached:
			indexes = append(indexes, e.ItemIndex)
			tried[e.ItemIndex] = j.LastTry[e.ItemIndex]
		}
	}
	if slices.Sort(indexes); work != nil { // a commit of the user is what an attempt did
		id := j.attemptOf(work.ItemID, work.Index, work.Attempt)
		j.Record(events.AgentStarted{AttemptID: id, Base: work.Base})
		j.Record(events.AgentCompleted{AttemptID: id, Changes: work.Changes})
		indexes = nil
	}
	j.listen()
	v, stopped, err := j.runCanary(ctx, indexes)
	if err != nil {
		return v, err
	}
	v.Reprocessed, v.Recovered = j.Reprocessed(tried)
	j.Record(events.DLQItemsReprocessed{Succeeded: v.Recovered, Failed: v.Reprocessed - v.Recovered})
	if v.State != jobs.Completed {
		return v, nil
	}
	if pending := j.Pending(); pending > 0 || !j.Selected {
		v.State, v.Reason = jobs.Stopped, "some items have not run yet"
		if next != "" {
			v.Reason += fmt.Sprintf(", so %[1]s did not run; resume runs them, then %[1]s", next)
		}
		return v, nil
	}
	left := ""
	switch m := j.Policy.Metrics(); {
	case next == "":
		return v, nil
	case stopped:
		left = "the first dead letters failed again, so the others and %[1]s did not run: resume runs %[1]s"
	case !reduce && j.workflow.ReduceWhen == nil && m.DeadLetters() > 0:
		left = "dead letters are left, so %[1]s did not run: resume runs %[1]s"
	}
	if left != "" {
		v.State, v.Reason = jobs.Stopped, fmt.Sprintf(left, next)
		return v, nil
	}
	last, err := j.runLast(ctx)
	last.Reprocessed, last.Recovered = v.Reprocessed, v.Recovered
	return last, err
}

// runCanary runs dead letters again: first as many as Config.Canary says, and the others only if none of these
// failed. It reports whether it stopped at that.
func (j *owner) runCanary(ctx context.Context, indexes []int) (v Result, stopped bool, err error) {
	first, rest := indexes, []int(nil)
	if n := j.config.Canary; n > 0 && n < len(indexes) {
		first, rest = indexes[:n], indexes[n:]
	}
	v, err = j.runPool(ctx, j.listed(first), nil, nil)
	if err != nil || v.State != jobs.Completed || len(rest) == 0 {
		return v, false, err
	}
	failed := 0
	for _, index := range first {
		if j.Dead(index) {
			failed++
		}
	}
	if failed > 0 {
		j.notice(fmt.Sprintf("canary: %d of %d failed again, so the other %d do not run", failed, len(first),
			len(rest)))
		return v, true, nil
	}
	v, err = j.runPool(ctx, j.listed(rest), nil, nil)
	return v, false, err
}

// recordResumed records how far the job had come, and whether the phases after the map phase run again.
func (j *owner) recordResumed(ctx context.Context, reason string, reduce bool) error {
	attached, err := j.attached(ctx)
	if err != nil {
		return fmt.Errorf("find attempts that are still running: %w", err)
	}
	if err := j.dropInterrupted(attached); err != nil {
		return err
	}
	phase := j.Unfinished()
	e := events.JobResumed{
		Reason: reason, Completed: j.Status.Settled(), Pending: j.Pending() + j.Unmerged(),
		InFlight: j.InFlight(), Waiting: j.Delayed(),
		Phase: phase, Reduce: reduce, Attached: attached, Died: j.died, MaxCostUSD: j.config.maxCost(),
		Accepted: j.config.Accept, Set: j.config.Set,
		Rates: startRates(j.workflow), Broker: j.Broker,
	}
	if j.config.OnFleet || j.config.Abandon { // a run that has no items to run leaves the broker as it was
		e.Broker = j.config.Broker
	}
	if p := j.Phases[phase]; p != nil {
		e.StepsDone = len(p.Steps)
	}
	if j.space != nil && !slices.Equal(j.space.Checkout(), j.Checkout) {
		e.Checkout = j.space.Checkout()
	}
	killed := j.killedAgents(attached)
	j.runSeq = j.Record(e).Seq
	for _, u := range killed {
		j.Record(u)
		j.host.starts.ledger.Add(u.Index(), u.Step, u.Use())
	}
	if j.rescaled {
		n := j.meta.MaxParallel
		if j.elastic {
			n = 0 // as many as there are workers for
		}
		j.Record(events.ScaleRequested{MaxParallel: n, Was: j.Slots, By: "the workflow"})
	}
	return nil
}

// killedAgents returns what is known of the agents that worked when the run before was killed: that they did. What they
// have cost nobody can say any more, so each counts as what it may have cost.
func (j *owner) killedAgents(attached []int) []events.AgentUsage {
	assumed := j.Spent.Total.Largest
	if most := j.budget().Item; most != nil {
		assumed = *most
	}
	var killed []events.AgentUsage
	add := func(u events.AgentUsage) {
		s, ok := j.Sessions[u.ItemID]
		if !ok || s.Left {
			return
		}
		u.Step, u.Preset, u.Model, u.SessionID = s.Step, s.Preset, s.Model, s.SessionID
		u.Outcome, u.Partial, u.AssumedUSD = events.OutcomeInterrupted, true, assumed
		killed = append(killed, u)
	}
	for index, f := range check.ByKey(j.Running) {
		if f.Fleet || slices.Contains(attached, index) {
			continue
		}
		add(events.AgentUsage{
			ItemID: f.ItemID, ItemIndex: index, AgentID: f.AgentID, Attempt: f.Attempt,
		})
	}
	phase := j.Working
	add(events.AgentUsage{Phase: phase, AgentID: j.attemptID(phase, 1), Attempt: 1})
	return killed
}

// dropInterrupted does what the workflow says with the files of the attempts that ran when the run before was killed.
func (j *owner) dropInterrupted(attached []int) error {
	if j.fleet != nil || !j.files.Drops() {
		return nil
	}
	for index, f := range j.Running {
		if f.Fleet || slices.Contains(attached, index) || index >= j.Store.Len() {
			continue
		}
		it, err := j.item(index)
		if err != nil {
			return err
		}
		j.files.DropInterrupted(it, f.Began)
	}
	return nil
}

// attached returns the indexes of the items in flight whose attempts the executor still has.
func (j *owner) attached(ctx context.Context) ([]int, error) {
	indexes := make(map[string]int, len(j.Running))
	for index, f := range j.Running {
		if f.Fleet == (j.fleet != nil) && index < j.Store.Len() { // a power loss may have taken it: the selection will bring it again
			indexes[f.AgentID] = index
		}
	}
	if len(indexes) == 0 {
		return nil, nil
	}
	held, err := j.executor.Holds(ctx, slices.Sorted(maps.Keys(indexes)))
	if err != nil {
		return nil, err
	}
	var attached []int
	for _, id := range held {
		if index, ok := indexes[id]; ok {
			attached = append(attached, index)
		}
	}
	slices.Sort(attached)
	return slices.Compact(attached), nil
}

// finish records the result of the run, closes everything and returns the Result.
func (j *owner) finish(ctx context.Context, v Result, err error) (Result, error) {
	close(j.closing)
	if j.space != nil {
		v.Merge = &MergeResult{
			Delivered: events.Delivered{Base: j.Base}, Merged: j.Merged, Merging: len(j.Merging),
		}
		if err == nil {
			v = j.deliver(context.WithoutCancel(ctx), v)
		}
	}
	result := v
	result.Job, result.Metrics, result.Spent = j.place, j.Policy.Metrics(), j.Spent.Total.Clone()
	result.Reason = j.config.Settings.Mask.Text(v.Reason)
	result.ReduceStale = v.State == jobs.Completed && j.ReduceStale
	if j.Ended != "" {
		result.Duration = j.Duration(j.Last)
		if err == nil {
			err = j.RefreshResults()
		}
	} else {
		if err == nil && v.State == jobs.Completed && j.Selected {
			err = j.MakeResults()
		}
		if err == nil && v.Cause == nil { // what kept prodigy from going on, a full disk for one, would keep it from this
			err = errors.Join(j.RefreshResults(),
				reuse.RefreshIndex(j.place, j.Opened, j.workflow.Map, j.meta.Since != nil))
		}
		if result.Duration = j.Duration(time.Now()); err == nil {
			j.recordEnd(result)
		}
	}
	if _, statErr := os.Stat(j.place.ResultsFile()); statErr == nil {
		result.Results = j.place.ResultsFile()
	}
	_ = j.agents.Wait() // they tell how they ended by their messages
	if closed := j.close(); err == nil {
		err = closed
	}
	if err != nil {
		result.State, result.Reason, result.Cause = jobs.Failed, err.Error(), err
		// The counts are those of the log: after an error of prodigy's own not all that was done is in it.
		if kept, unread := job.Summarize(j.place); unread == nil {
			result.Metrics, result.Duration, result.Spent = kept.Metrics, kept.Duration, kept.Spent
		} else {
			result.Unknown, result.Metrics, result.Results = true, errorpolicy.New(errorpolicy.Policy{}).Metrics(), ""
		}
	}
	return result, err
}

func (j *owner) recordEnd(r Result) {
	took, m := events.Millis(r.Duration), cmp.Or(r.Merge, &MergeResult{})
	if batch := j.Policy.Remainder(); len(batch) > 0 {
		j.Record(events.ErrorBatch{Size: len(batch), Errors: batch})
	}
	var spent *limit.Total
	if r.Spent.Agents > 0 {
		spent = &r.Spent
	}
	switch r.State {
	case jobs.Completed:
		j.Record(events.JobCompleted{
			DurationMS: took, Metrics: r.Metrics, Reason: r.Reason,
			ReduceStale: r.ReduceStale, ReduceHeld: r.ReduceHeld,
			Head: m.Head, Branch: m.Branch, Into: m.Into, Spent: spent,
		})
	case jobs.Failed:
		j.Record(events.JobFailed{
			DurationMS: took, Metrics: r.Metrics, Reason: r.Reason,
			Spent: spent, InputGone: errors.Is(r.Cause, errInputGone) || j.nothingLeft(),
		})
	case jobs.Cancelled:
		j.Record(events.JobCancelled{
			DurationMS: took, Metrics: r.Metrics, Reason: r.Reason,
			Spent: spent,
		})
	case jobs.Stopped:
		j.Record(events.JobPaused{Reason: r.Reason, Unproven: r.Unproven, AsAsked: r.AsAsked})
	default:
		panic("BUG: a run ended in an unknown state: " + strconv.Quote(string(r.State)))
	}
}

// Chooser picks dead letters of a queue that is up to date, and returns their items. The job stays locked meanwhile.
type Chooser func(q *dlq.Queue) ([]string, error)

// ErrNoMap is the error for a job without items, which has no dead letters.
var ErrNoMap = errors.New("standard workflows have no dead letters")

// Evict deletes the chosen dead letters and returns how many. It is recorded in the log, so a queue that is
// rebuilt from the log does not have them either. The state of the job stays as it is.
func Evict(c Config, place jobs.Job, reason string, choose Chooser) (int, error) {
	j, err := openJob(c, place)
	if err != nil {
		return 0, err
	}
	ids, err := j.chosen(choose)
	if err == nil && len(ids) > 0 {
		for _, id := range ids {
			j.Record(events.DLQItemRemoved{ItemID: id, Reason: reason})
		}
		j.Record(events.DLQItemsEvicted{Count: len(ids)})
	}
	if err = errors.Join(err, j.close()); err != nil {
		return 0, err
	}
	return len(ids), nil
}

func (j *owner) chosen(choose Chooser) ([]string, error) {
	if j.Queue == nil {
		return nil, ErrNoMap
	}
	return choose(j.Queue)
}
