package errorpolicy

import (
	"time"

	"prodigy/internal/breaker"
	"prodigy/internal/retry"
)

// Machine is the policy at work in one job. Decide and Admit look and change nothing; Started, Succeeded, Failed,
// Rejected and Released record what the log says, live and on replay alike, so that a replayed Machine equals the live one.
//
// What it keeps does not grow with the number of items: counts, at most 100 item ids for each type of error, and one batch.
type Machine struct {
	policy     Policy
	breaker    *breaker.Breaker
	total      int
	totalKnown bool
	counts     counts
	errors     map[retry.Type]*tally
	batch      []BatchError

	thresholds thresholds
	stop       string // why the job is to stop; empty: it is not
}

// New returns the machine of a job that has seen nothing yet.
func New(p Policy) *Machine {
	return &Machine{policy: p, breaker: newBreaker(p), errors: map[retry.Type]*tally{}}
}

func newBreaker(p Policy) *breaker.Breaker {
	if p.CircuitBreaker == nil {
		return &breaker.Breaker{}
	}
	return breaker.New(*p.CircuitBreaker)
}

// Effects are the things to be told that follow from an applied record. They inform; no state depends on them.
type Effects struct {
	Transitions []breaker.Transition
	Batch       []BatchError // a full batch of collected errors, with error_collection batched
}

// BatchError is one failure in a batch.
type BatchError struct {
	ItemID    string     `json:"item_id"`
	ErrorType retry.Type `json:"error_type"`
	Error     string     `json:"error"`
}

// SetTotal tells how many items there are, once that is known, and looks at the failure threshold again: of few items, enough
// may have finished.
func (m *Machine) SetTotal(n int) {
	m.total, m.totalKnown = n, true
	m.lookAtRate()
}

// Started records the start of an attempt of an item at now.
func (m *Machine) Started(now time.Time) (breaker.Ticket, Effects) {
	t, transitions := m.breaker.Start(now)
	return t, Effects{Transitions: transitions}
}

// Succeeded records a success of the item; before is how the item was counted until now, so that a dead letter that is
// retried and succeeds moves from failed to successful.
func (m *Machine) Succeeded(itemID string, t breaker.Ticket, before Status, now time.Time) Effects {
	m.counts.move(before, Succeeded)
	e := Effects{Transitions: m.breaker.Success(t, now)}
	m.thresholds.finished++
	m.lookAtRate()
	return e
}

// Failed records a failed attempt and the action that was decided for it. If the item runs again, only the breaker hears of
// it; any other action is final and counts in the metrics, in the batch and for the thresholds.
func (m *Machine) Failed(itemID string, t breaker.Ticket, a Action, typ retry.Type, message string, before Status, now time.Time) Effects {
	if a.RunsAgain() {
		return Effects{Transitions: m.breaker.Failure(t, now)}
	}
	m.counts.move(before, a.Status())
	m.count(typ, itemID)
	e := Effects{Transitions: m.breaker.Failure(t, now)}
	e.Batch = m.collect(BatchError{ItemID: itemID, ErrorType: typ, Error: message})
	m.lookAt(itemID, a)
	return e
}

// Rejected records that the open breaker refused the item. It is no failure: neither thresholds nor batches hear of it.
func (m *Machine) Rejected(itemID string, before Status) {
	m.counts.move(before, Rejected)
	m.count(retry.TypeCircuitOpen, itemID)
}

// Released records that an attempt was stopped and given back. It is also for the attempts that were in flight when their
// run died: a half-open breaker waits for the outcomes of its tests.
func (m *Machine) Released(t breaker.Ticket) { m.breaker.Release(t) }

// Resumed starts the thresholds anew at now; the metrics and the breaker stay.
func (m *Machine) Resumed(now time.Time) {
	m.breaker.Resumed(now)
	m.thresholds = thresholds{settledBefore: m.counts.settled()}
	m.stop = ""
}

// ResetBreaker closes the breaker, because a retry of dead letters means that their cause is gone. Nothing may be in flight.
func (m *Machine) ResetBreaker() { m.breaker = newBreaker(m.policy) }

// Stop tells whether the job is to stop, and why in words for people. Once it is, it stays so until Resumed.
func (m *Machine) Stop() (reason string, stop bool) { return m.stop, m.stop != "" }

// Remainder returns the collected errors of an unfinished batch and empties it, for the end of the map phase.
func (m *Machine) Remainder() []BatchError {
	batch := m.batch
	m.batch = nil
	return batch
}

func (m *Machine) count(typ retry.Type, itemID string) {
	if m.errors[typ] == nil {
		m.errors[typ] = &tally{}
	}
	m.errors[typ].add(itemID)
}

// collect adds a failure to the batch and returns the batch when it is full.
func (m *Machine) collect(e BatchError) []BatchError {
	if m.policy.ErrorCollection.Kind != Batched {
		return nil
	}
	m.batch = append(m.batch, e)
	if len(m.batch) < m.policy.ErrorCollection.Size {
		return nil
	}
	return m.Remainder()
}
