package errorpolicy

import (
	"time"

	"prodigy/internal/breaker"
	"prodigy/internal/retry"
)

// Machine applies the policy in one job. Decide and Admit change nothing. Started, Succeeded, Failed, Rejected and Released apply a
// record of the log, both live and on replay, so that a replayed Machine equals the live one.
//
// Its size does not grow with the number of items: counts, at most 100 item ids for each type of error, and one batch.
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

// New returns the machine of a new job.
func New(p Policy) *Machine {
	return &Machine{policy: p, breaker: newBreaker(p), errors: map[retry.Type]*tally{}}
}

func newBreaker(p Policy) *breaker.Breaker {
	if p.CircuitBreaker == nil {
		return &breaker.Breaker{}
	}
	return breaker.New(*p.CircuitBreaker)
}

// Effects are notifications that follow from an applied record. No state depends on them.
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

// SetTotal sets the number of items once it is known. It checks the failure threshold again, since of few items enough may have finished.
func (m *Machine) SetTotal(n int) {
	m.total, m.totalKnown = n, true
	m.checkRate()
}

// Started records the start of an attempt of an item at now.
func (m *Machine) Started(now time.Time) (breaker.Ticket, Effects) {
	t, transitions := m.breaker.Start(now)
	return t, Effects{Transitions: transitions}
}

// Succeeded records a success of the item. before is its status until now: a dead letter that is retried and succeeds moves from failed
// to successful.
func (m *Machine) Succeeded(itemID string, t breaker.Ticket, before Status, now time.Time) Effects {
	m.counts.move(before, Succeeded)
	e := Effects{Transitions: m.breaker.Success(t, now)}
	m.thresholds.finished++
	m.checkRate()
	return e
}

// Failed records a failed attempt and the action that was decided for it. If the item runs again, only the breaker counts the failure;
// any other action is final and also counts in the metrics, the batch and the thresholds.
func (m *Machine) Failed(itemID string, t breaker.Ticket, a Action, typ retry.Type, message string, before Status, now time.Time) Effects {
	if a.RunsAgain() {
		return Effects{Transitions: m.breaker.Failure(t, now)}
	}
	m.counts.move(before, a.Status())
	m.count(typ, itemID)
	e := Effects{Transitions: m.breaker.Failure(t, now)}
	e.Batch = m.collect(BatchError{ItemID: itemID, ErrorType: typ, Error: message})
	m.countFailure(itemID, a)
	return e
}

// Rejected records that the open breaker refused the item. It is not a failure for thresholds and batches.
func (m *Machine) Rejected(itemID string, before Status) {
	m.counts.move(before, Rejected)
	m.count(retry.TypeCircuitOpen, itemID)
}

// Released records that an attempt was stopped and returned to the queue. Call it also for attempts that were in flight when their run
// died: a half-open breaker waits for the outcomes of its tests.
func (m *Machine) Released(t breaker.Ticket) { m.breaker.Release(t) }

// Resumed resets the thresholds; the metrics and the breaker keep their state.
func (m *Machine) Resumed(now time.Time) {
	m.breaker.Resumed(now)
	m.thresholds = thresholds{settledBefore: m.counts.settled()}
	m.stop = ""
}

// ResetBreaker closes the breaker: a retry of dead letters means that their cause is fixed. No attempt may be in flight.
func (m *Machine) ResetBreaker() { m.breaker = newBreaker(m.policy) }

// Stop reports whether the job must stop, and why. It stays so until Resumed.
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

// Admission is the answer to "may this item start now?".
type Admission struct {
	Verdict Verdict
	Until   time.Time // with Hold: when to ask again; zero: after the next outcome
}

// Verdict is the answer in an Admission.
type Verdict int

const (
	Run    Verdict = iota // start it
	Refuse                // reject it: dead-lettered as circuit_open without being run
	Hold                  // ask again later
)

// Admit returns whether the breaker lets the next item start at now. For the thresholds see Stop.
func (m *Machine) Admit(now time.Time) Admission {
	switch a := m.breaker.Admit(now); {
	case a.Verdict == breaker.Run:
		return Admission{Verdict: Run}
	case a.Verdict == breaker.Full:
		return Admission{Verdict: Hold}
	case m.policy.CircuitBreaker.OnOpen == breaker.Wait:
		return Admission{Verdict: Hold, Until: a.Until}
	}
	return Admission{Verdict: Refuse}
}
