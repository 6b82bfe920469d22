package dlq

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/retry"
)

// Projection follows the log of a job and keeps its queue: an item whose AgentFailed makes it a dead letter
// is put, with the evidence of all its attempts; one that completes, is skipped or whose DLQItemRemoved comes
// is removed. It is idempotent: records may be applied again, and a new Projection over the same queue
// catches up when it is given the whole log: of the records that the queue has followed before it only learns
// which items are between two attempts.
//
// It keeps in memory the items that are running or have failed and will be tried again, no others, and of the
// evidence of their failures no more than a few MiB: see evidence.
type Projection struct {
	queue      *Queue
	jobID      string
	workflow   string
	maxRetries int
	item       func(index int) (json.RawMessage, error)

	Memory
	kept    evidence
	applied int64 // records up to this one are in the queue
}

// Memory is what a projection knows of the items that are between their first start and their final outcome,
// after some record of the log. It is what a checkpoint has of the projection.
type Memory struct {
	// The record that the last line of the journal follows from; set by Projection.Remembered.
	Journal int64 `json:"journal"`

	Resent bool               `json:"resent"` // the records are of a retry of dead letters
	Active map[string]*active `json:"active"` // by item ID
}

// active is an item that is between its first start and its final outcome.
type active struct {
	First   time.Time   `json:"first"`             // start of the first attempt
	History []exhibit   `json:"history,omitempty"` // of the attempts before
	Retries []StepRetry `json:"retries,omitempty"` // of the attempt that is running
}

// NewProjection returns a projection onto q. Item gives the data of an item as it was recorded with the job;
// maxRetries is how often an entry may be sent again from the queue before it is no longer eligible.
func NewProjection(q *Queue, jobID, workflow string, maxRetries int,
	item func(index int) (json.RawMessage, error),
) *Projection {
	return &Projection{
		queue: q, jobID: jobID, workflow: workflow, maxRetries: maxRetries, item: item,
		Memory: Memory{Active: map[string]*active{}}, applied: q.Applied(), kept: evidence{path: q.path + ".waiting"},
	}
}

// Remembered returns what the projection knows, between two calls of Apply. The result shares memory with the
// projection: encode it before the next call. It reports false if some failures are only in the spill file.
func (p *Projection) Remembered() (m Memory, ok bool) {
	m = p.Memory
	m.Journal = p.queue.Applied()
	return m, p.kept.out == 0
}

// Restore makes a projection that has followed nothing continue after record seq, where m was taken. It takes
// over m. It reports false, and changes nothing, if the journal lacks what had been written then: the log
// must be followed from its beginning.
func (p *Projection) Restore(m Memory, seq int64) (bool, error) {
	if p.applied < m.Journal || m.Active == nil || slices.Contains(slices.Collect(maps.Values(m.Active)), nil) {
		return false, nil
	}
	for _, a := range m.Active {
		for i, x := range a.History {
			var err error
			if a.History[i], err = p.kept.keep(*x.failure); err != nil {
				return false, err
			}
		}
	}
	p.Memory = m
	if seq > p.applied {
		p.queue.Follow(seq)
		p.queue.Followed()
	}
	return true, nil
}

// Behind tells the projection that the log ends with record last. A queue that is ahead of its log, because a
// power loss has taken the end of the log, is rebuilt: it has failures and removals that the log does not
// have. If the log is empty (last is 0) it is gone, which its readers report, and the queue stays as it is.
func (p *Projection) Behind(last int64) error {
	if p.applied <= last || last == 0 {
		return nil
	}
	p.applied = 0
	return p.queue.Restart()
}

// Apply follows records that are durable, in their order, and syncs the queue when it changed it.
func (p *Projection) Apply(records []events.Record) error {
	for _, r := range records {
		if err := p.apply(r); err != nil {
			return err
		}
	}
	p.queue.Followed()
	return p.queue.Sync()
}

func (p *Projection) apply(r events.Record) error {
	if r.Seq > p.applied {
		p.queue.Follow(r.Seq)
	}
	switch e := r.Event.(type) {
	case events.JobResumed:
		p.Resent = e.Reason == events.ForDeadLetters
	case events.AgentStarted:
		p.started(r.Time, e)
	case events.StepRetrying:
		if a := p.Active[e.ItemID]; a != nil {
			a.Retries = append(a.Retries, StepRetry{DelayMS: e.DelayMS, Error: e.Error})
		}
	case events.AgentInterrupted, events.AgentLost:
		p.givenBack(events.Subject(e))
	case events.AgentFailed:
		return p.failed(r, e)
	case events.AgentCompleted:
		if e.Commit != "" { // its work is to be merged
			if a := p.Active[e.ItemID]; a != nil {
				a.Retries = nil
			}
			return nil
		}
		return p.settled(r.Seq, e.ItemID)
	case events.WorktreeMerged:
		for _, id := range e.ItemIDs {
			if err := p.settled(r.Seq, id); err != nil {
				return err
			}
		}
	case events.AgentSkipped, events.DLQItemRemoved:
		return p.settled(r.Seq, events.Subject(e))
	}
	return nil
}

func (p *Projection) started(now time.Time, e events.AgentStarted) {
	a := p.Active[e.ItemID]
	if a == nil {
		a = &active{First: now}
		p.Active[e.ItemID] = a
	}
	a.Retries = nil // an attempt that died with its process left them
}

// givenBack forgets an attempt that ended without an outcome.
func (p *Projection) givenBack(itemID string) {
	a := p.Active[itemID]
	if a == nil {
		return
	}
	a.Retries = nil
	if len(a.History) == 0 {
		delete(p.Active, itemID)
	}
}

// settled forgets an item that is no dead letter, or no longer.
func (p *Projection) settled(seq int64, itemID string) error {
	if a := p.Active[itemID]; a != nil {
		p.forget(itemID, a)
	}
	if seq <= p.applied {
		return nil
	}
	return p.queue.Remove(itemID)
}

// failed adds the failure of an attempt to its item, or the item to the queue if it has no attempts left.
func (p *Projection) failed(r events.Record, e events.AgentFailed) error {
	a := p.Active[e.ItemID]
	if a == nil { // refused by the open breaker before it was ever started
		a = &active{First: r.Time}
	}
	f := failure(r.Time, e, a.Retries)
	a.Retries = nil
	if e.Action.RunsAgain() {
		p.Active[e.ItemID] = a
		switch {
		case !p.queue.Has(e.ItemID):
			x, err := p.kept.keep(f)
			a.History = append(a.History, x)
			return err
		case r.Seq <= p.applied:
			return nil
		}
		// The letter is not kept waiting for the last attempt of its retry, which may be stopped before that.
		return p.put(r, e, a.First, []Failure{f})
	}
	if !e.Status().DeadLetter() {
		return p.settled(r.Seq, e.ItemID)
	}
	defer p.forget(e.ItemID, a)
	if r.Seq <= p.applied {
		return nil
	}
	history, err := p.kept.all(a.History)
	if err != nil {
		return err
	}
	return p.put(r, e, a.First, append(history, f))
}

// forget drops an item and the evidence kept for it.
func (p *Projection) forget(itemID string, a *active) {
	p.kept.drop(a.History)
	delete(p.Active, itemID)
}

// Close drops what was kept of items that have not come to their end. The log has it.
func (p *Projection) Close() error { return p.kept.close() }

func failure(now time.Time, e events.AgentFailed, retries []StepRetry) Failure {
	return Failure{
		Attempt: e.Attempt, Time: now, ErrorType: e.ErrorType, Rule: e.Rule, ExitCode: e.ExitCode, Message: e.Error, Step: e.Step,
		AgentID: e.AgentID, DurationMS: e.DurationMS, StdoutTail: e.StdoutTail, StderrTail: e.StderrTail, Retries: retries,
		Commit: e.Commit, Conflicts: e.Conflicts,
	}
}

// put makes a dead letter of an item, or extends the one that it is.
func (p *Projection) put(r events.Record, e events.AgentFailed, first time.Time, history []Failure) error {
	entry, found, err := p.queue.Load(e.ItemID)
	if err != nil {
		return err
	}
	if !found {
		data, err := p.item(e.ItemIndex)
		if err != nil {
			return fmt.Errorf("data of item %s: %w", e.ItemID, err)
		}
		entry = Entry{
			ItemID: e.ItemID, ItemIndex: e.ItemIndex, Item: data, CorrelationID: r.CorrelationID,
			JobID: p.jobID, Workflow: p.workflow, FirstAttempt: first,
		}
	}
	before := len(entry.FailureHistory)
	for _, f := range history {
		if !slices.ContainsFunc(entry.FailureHistory, f.same) {
			entry.FailureHistory = append(entry.FailureHistory, f)
		}
	}
	if len(entry.FailureHistory) == before {
		return nil // applied before
	}
	if found && p.Resent && !e.Action.RunsAgain() {
		entry.RetryCount++
	}
	entry.FailureCount = len(entry.FailureHistory)
	entry.LastAttempt = r.Time
	entry.ErrorSignature = e.ErrorSignature
	entry.ReprocessEligible = eligible(e.ErrorType) && entry.RetryCount < p.maxRetries
	entry.ManualReviewRequired = !entry.ReprocessEligible
	return p.queue.Put(entry)
}

// same reports whether f and g are of the same record. Refusals by the breaker have no agent, so the time
// counts as well.
func (f Failure) same(g Failure) bool {
	return f.Attempt == g.Attempt && f.AgentID == g.AgentID && f.Time.Equal(g.Time)
}

// eligible reports whether sending an item again can help after a failure of this type.
func eligible(t retry.Type) bool {
	switch t {
	case retry.TypePermission, retry.TypeCommandNotFound, retry.TypeTemplate:
		return false
	}
	return true
}
