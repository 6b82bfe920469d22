package mapreduce

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/gitspace"
	"prodigy/internal/job"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

// What an agent did is merged after its slot is free, by one merger: a goroutine that gets the head and a list
// of work, and returns what of it could be merged. Its work counts once WorktreeMerged is recorded; what is not
// merged when a run ends is merged first by the next.

const (
	mergesAtOnce = 64 // without verify
	// times max_parallel: how many items may wait to be merged, where slots are not held, before no more are
	// started
	mergesAhead = 4
)

// enqueue adds an item whose work is to be merged.
func (p *pool) enqueue(index int) {
	turn := p.Merging[index].Seq
	if p.workflow.Workspace.Order == workflow.OrderItems {
		turn = int64(index)
	}
	p.merger.queue.push(mergeable{turn, index})
}

// enqueueAll adds what an earlier run has left.
func (p *pool) enqueueAll() {
	p.merger.last, p.merger.slots = -1, map[int]int{}
	for index, m := range p.Merging {
		if p.Skips[index] != "" { // asked for while the job stood
			p.recordSkipped(events.AgentFailed{
				AttemptID: m.AttemptID, Worker: m.Worker, DurationMS: events.Millis(m.Took), Commit: m.Commit,
			})
			continue
		}
		p.enqueue(index)
	}
	p.merger.backlog = len(p.merger.queue) > 0
}

// mayMerge reports whether the first of the queue can be merged now.
func (p *pool) mayMerge() bool {
	return len(p.merger.queue) > 0 && p.merger.queue[0].turn < p.horizon()
}

// horizon returns the turn from which on work may still come that has to be merged before. It is without a
// bound when the order is that of completion.
func (p *pool) horizon() int64 {
	if p.workflow.Workspace.Order != workflow.OrderItems {
		return math.MaxInt64
	}
	first := math.MaxInt
	for index := range p.Running {
		first = min(first, index)
	}
	for _, d := range p.due {
		first = min(first, d.index)
	}
	for _, d := range p.suspects.waiting {
		first = min(first, d.index)
	}
	for it := range p.starts.all() {
		if !p.gone[it.Index] {
			first = min(first, it.Index)
		}
	}
	switch {
	case p.fresh != nil:
		first = min(first, p.fresh.Index)
	case p.source.found != nil:
		first = min(first, p.merger.last+1)
	}
	return int64(first)
}

// merge has the merger work on what waits, if it is idle.
func (p *pool) merge() {
	m := &p.merger
	if m.busy || p.runners.ctx == nil || p.runners.ctx.Err() != nil {
		return
	}
	if p.halted == nil {
		most := mergesAtOnce
		if v := p.workflow.Workspace.Verify; v != nil {
			most = v.Batch
		}
		for horizon := p.horizon(); len(m.batch) < most && len(m.queue) > 0 && m.queue[0].turn < horizon; {
			index := m.queue.pop().index
			m.batch = append(m.batch, workOf(p.Merging[index]))
		}
	}
	if len(m.batch) == 0 && m.publish == nil {
		return
	}
	m.busy = true
	j, ctx, head, batch, publish := p.owner, p.runners.ctx, p.Head, m.batch, m.publish
	m.publish = nil
	j.agents.Go(func() error {
		var end mergeEnd
		if publish != nil {
			if end.err = j.Log.Wait(publish.seq); end.err == nil {
				end.err = j.space.Publish(ctx, publish.head, publish.settled)
			}
		}
		if began := time.Now(); end.err == nil && len(batch) > 0 {
			end.Merged, end.err = j.space.Merge(ctx, head, batch)
			end.took = time.Since(began)
		}
		j.inbox <- &end
		return nil
	})
}

// deliver records what the merger has done: first all that was merged, in one record, and then a failure for each
// other.
func (end *mergeEnd) deliver(p *pool) {
	m := &p.merger
	batch := m.batch
	m.busy, m.batch = false, nil
	if end.err != nil { // nothing counts, and no item is to blame
		for _, w := range batch {
			p.enqueue(w.Index)
		}
		p.haltForOwn(end.err)
		return
	}
	if len(end.Items) > 0 {
		m.publish = p.recordMerged(end)
	}
	for _, r := range end.Failed {
		p.recordRejected(r)
		if w, ok := p.Waiting[r.Index]; ok && p.halted == nil {
			p.due.push(dueItem{id: w.ID, index: r.Index, due: w.Due})
		}
	}
	for _, w := range batch {
		p.freeSlot(m.slots[w.Index])
		delete(m.slots, w.Index)
	}
	p.checkPolicy()
}

// recordMerged records what was merged, and that its items are no dead letters any more.
func (j *owner) recordMerged(end *mergeEnd) *published {
	e := events.WorktreeMerged{Head: end.Head, DurationMS: events.Millis(end.took)}
	done := &published{head: end.Head}
	var letters []string
	for _, it := range end.Items {
		e.ItemIDs, e.ItemIndexes, e.Attempts = append(e.ItemIDs, it.ItemID), append(e.ItemIndexes, it.Index),
			append(e.Attempts, it.Attempt)
		e.Commits, e.Files = append(e.Commits, it.Merge), append(e.Files, it.Files)
		e.Insertions, e.Deletions = e.Insertions+it.Insertions, e.Deletions+it.Deletions
		done.settled = append(done.settled, it.Work)
		if j.Dead(it.Index) {
			letters = append(letters, it.ItemID)
		}
	}
	done.seq = j.Record(e).Seq
	for _, id := range letters {
		j.Record(events.DLQItemRemoved{ItemID: id, Reason: "succeeded"})
	}
	return done
}

// recordRejected records that work could not be merged, as a failure of its item. The policy decides what
// follows, as of any failure.
func (j *owner) recordRejected(r gitspace.Rejected) {
	m := j.Merging[r.Index]
	f := retry.Failure{Type: r.Type, Message: r.Message, ExitCode: -1}
	step := ""
	if r.Outcome != nil && r.Outcome.Failure != nil {
		of := r.Outcome.Failure
		f.Stdout, f.Stderr, f.ExitCode, f.Signal, step = of.Stdout, of.Stderr, of.ExitCode, of.Signal,
			"workspace.verify/"+of.Step
	}
	now := time.Now()
	resolve := r.Type == retry.TypeMergeConflict && len(j.workflow.Workspace.Resolve) > 0 && !m.Resolved
	d := errorpolicy.Decision{
		Action: errorpolicy.Retry, Reason: "running the steps of workspace.resolve",
		Retry: retry.Decision{State: m.Retry},
	}
	if !resolve {
		d = j.Policy.Decide(errorpolicy.Outcome{Failure: f, Retry: m.Retry}, now,
			retry.NewRand(j.meta.Seed, m.ItemID, strconv.Itoa(m.Attempt)))
	}
	failed := events.AgentFailed{
		AttemptID: m.AttemptID, Worker: m.Worker, DurationMS: events.Millis(m.Took), Step: step,
		Commit: m.Commit, Conflicts: r.Conflicts, Resolve: resolve,
	}
	j.fail(failed, f, d, now)
}

// adopt takes a commit of the user's repository as the work of the one item that was chosen.
func (j *owner) adopt(ctx context.Context, ids []string) (*gitspace.Work, error) {
	if j.space == nil {
		return nil, job.Refusef("only commits made in git workspaces can be merged, and this job has no workspaces")
	}
	if len(ids) != 1 {
		return nil, job.Refusef("a commit belongs to a single item: name one dead letter")
	}
	e, ok := j.Queue.Get(ids[0])
	if _, waits := j.Merging[e.ItemIndex]; !ok || waits {
		return nil, job.Refusef("the changes of %s are already waiting to merge: prodigy resume %s", ids[0], j.place.ID)
	}
	w, err := j.space.Adopt(ctx, j.Head, j.config.With, e.ItemIndex, j.NextNumber(e.ItemIndex))
	if state, ok := errors.AsType[*gitspace.StateError](err); ok {
		return nil, job.Refusef("%s", state.Reason)
	}
	w.ItemID = ids[0]
	return &w, err
}
