package errorpolicy

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"prodigy/internal/limit"
	"prodigy/internal/retry"
)

// Machine applies the policy in one job. Decide and Admit change nothing. Started, AttemptSucceeded,
// ItemSucceeded, Failed, Rejected and Released apply a record of the log, both live and on replay, so that a
// replayed Machine equals the live one.
//
// Its size does not grow with the number of items: counts, at most 100 item ids for each type of error, and one batch.
type Machine struct {
	policy Policy
	mem    memory
}

// memory is what a machine remembers: everything but its policy. It is what a checkpoint has of the machine.
type memory struct {
	Breaker    *limit.Breaker        `json:"breaker"`
	Keyed      *limit.KeyedBreaker   `json:"keyed"` // with a breaker for each key
	Total      int                   `json:"total"`
	TotalKnown bool                  `json:"total_known"`
	Counts     counts                `json:"counts"`
	Errors     map[retry.Type]*tally `json:"errors"`
	Batch      []BatchError          `json:"batch"`
	Thresholds thresholds            `json:"thresholds"`
	Stop       string                `json:"stop"` // why the job is to stop, if it is
}

// MarshalJSON encodes what the machine remembers.
func (m *Machine) MarshalJSON() ([]byte, error) { return json.Marshal(m.mem) }

// UnmarshalJSON restores what a machine of the same policy remembered.
func (m *Machine) UnmarshalJSON(data []byte) error {
	m.mem = newMemory(m.policy)
	if err := json.Unmarshal(data, &m.mem); err != nil {
		return err
	}
	if m.mem.Breaker == nil || m.mem.Keyed == nil || m.mem.Errors == nil ||
		slices.Contains(slices.Collect(maps.Values(m.mem.Errors)), nil) {
		return errors.New("the state of an error policy is incomplete")
	}
	return nil
}

// New returns the machine of a new job.
func New(p Policy) *Machine {
	return &Machine{policy: p, mem: newMemory(p)}
}

func newMemory(p Policy) memory {
	b, keyed := newBreakers(p)
	return memory{Breaker: b, Keyed: keyed, Errors: map[retry.Type]*tally{}}
}

// newBreakers returns the breaker of a policy, and those by key. One of the two is not used.
func newBreakers(p Policy) (*limit.Breaker, *limit.KeyedBreaker) {
	if p.CircuitBreaker == nil {
		return &limit.Breaker{}, &limit.KeyedBreaker{}
	}
	return limit.NewBreaker(*p.CircuitBreaker), limit.NewKeyedBreaker(*p.CircuitBreaker)
}

// byKey reports whether each key has a breaker of its own.
func (m *Machine) byKey() bool {
	return m.policy.CircuitBreaker != nil && m.policy.CircuitBreaker.Per != ""
}

// Keys returns how many keys of breakers something is remembered of.
func (m *Machine) Keys() int { return m.mem.Keyed.Len() }

// Effects are notifications that follow from an applied record. No state depends on them.
type Effects struct {
	Transitions []limit.Transition
	Batch       []BatchError // a full batch of collected errors, with error_collection batched
}

// BatchError is one failure in a batch.
type BatchError struct {
	ItemID    string     `json:"item_id"`
	ErrorType retry.Type `json:"error_type"`
	Error     string     `json:"error" log:"mask,clip"`
}

// SetTotal sets the number of items once it is known. It checks the failure threshold again, since of few
// items enough may have finished.
func (m *Machine) SetTotal(n int) {
	m.mem.Total, m.mem.TotalKnown = n, true
	m.checkRate()
}

// Started records the start of an attempt of an item at now. Key is that of its breaker, if each key has one.
func (m *Machine) Started(key string, now time.Time) (limit.Ticket, Effects) {
	if m.byKey() {
		t, transitions := m.mem.Keyed.Start(key, now)
		return t, Effects{Transitions: transitions}
	}
	t, transitions := m.mem.Breaker.Start(now)
	return t, Effects{Transitions: transitions}
}

// AttemptSucceeded records an attempt that succeeded. It is what the breaker wants to know; the item has not
// succeeded before ItemSucceeded.
func (m *Machine) AttemptSucceeded(t limit.Ticket, now time.Time) Effects {
	if m.byKey() {
		return Effects{Transitions: m.mem.Keyed.Success(t, now)}
	}
	return Effects{Transitions: m.mem.Breaker.Success(t, now)}
}

// ItemSucceeded records the success of an item. before is its status until now: a dead letter that is retried
// and succeeds moves from failed to successful.
func (m *Machine) ItemSucceeded(before Status) {
	m.mem.Counts.move(before, Succeeded)
	m.mem.Thresholds.Finished++
	m.checkRate()
}

// Failed records a failed attempt and the action that was decided for it. If the item runs again, only the
// breaker counts the failure; any other action is final and also counts in the metrics, the batch and the
// thresholds. A failure that says nothing of what the breaker protects, as that an item killed the runner,
// leaves it alone.
func (m *Machine) Failed(itemID string, t limit.Ticket, a Action, typ retry.Type, message string, before Status, now time.Time) Effects {
	var e Effects
	switch {
	case typ.AfterAttempt():
	case m.byKey():
		e.Transitions = m.mem.Keyed.Failure(t, now)
	default:
		e.Transitions = m.mem.Breaker.Failure(t, now)
	}
	if a.RunsAgain() {
		return e
	}
	m.mem.Counts.move(before, a.Status())
	m.count(typ, itemID)
	e.Batch = m.collect(BatchError{ItemID: itemID, ErrorType: typ, Error: message})
	m.countFailure(itemID, a)
	return e
}

// Rejected records that the open breaker refused the item. It is not a failure for thresholds and batches.
func (m *Machine) Rejected(itemID string, before Status) {
	m.mem.Counts.move(before, Rejected)
	m.count(retry.TypeCircuitOpen, itemID)
}

// Released records that an attempt was stopped and returned to the queue. Call it also for attempts that were
// in flight when their run died: a half-open breaker waits for the outcomes of its tests.
func (m *Machine) Released(t limit.Ticket) {
	if m.byKey() {
		m.mem.Keyed.Release(t)
		return
	}
	m.mem.Breaker.Release(t)
}

// Resumed records that the job is resumed at now. The thresholds start from zero if the policy had stopped
// the job, or if anew is set, as for a retry of dead letters, whose failures have been counted. Otherwise
// they count on.
func (m *Machine) Resumed(now time.Time, anew bool) {
	m.mem.Breaker.Resumed(now)
	m.mem.Keyed.Resumed(now)
	if m.mem.Stop == "" && !anew {
		return
	}
	m.mem.Thresholds = thresholds{SettledBefore: m.mem.Counts.settled()}
	m.mem.Stop = ""
}

// ResetBreaker closes the breaker, of all keys: a retry of dead letters means that their cause is fixed. No
// attempt may be in flight.
func (m *Machine) ResetBreaker() { m.mem.Breaker, m.mem.Keyed = newBreakers(m.policy) }

// Stop reports whether the job must stop, and why. It stays so until Resumed.
func (m *Machine) Stop() (reason string, stop bool) { return m.mem.Stop, m.mem.Stop != "" }

// Remainder returns the collected errors of an unfinished batch and empties it, for the end of the map phase.
func (m *Machine) Remainder() []BatchError {
	batch := m.mem.Batch
	m.mem.Batch = nil
	return batch
}

func (m *Machine) count(typ retry.Type, itemID string) {
	if m.mem.Errors[typ] == nil {
		m.mem.Errors[typ] = &tally{}
	}
	m.mem.Errors[typ].add(itemID)
}

// collect adds a failure to the batch and returns the batch when it is full.
func (m *Machine) collect(e BatchError) []BatchError {
	if m.policy.ErrorCollection.Kind != Batched {
		return nil
	}
	m.mem.Batch = append(m.mem.Batch, e)
	if len(m.mem.Batch) < m.policy.ErrorCollection.Size {
		return nil
	}
	return m.Remainder()
}

// Admission is the answer to "may this item start now?".
type Admission struct {
	Verdict Verdict

	// with Hold: when to ask again. The zero time is after the next outcome, of the same key if each has a breaker
	Until time.Time
}

// Verdict is the answer in an Admission.
type Verdict int

const (
	Run    Verdict = iota // start it
	Refuse                // reject it: dead-lettered as circuit_open without being run
	Hold                  // ask again later
)

// Admit returns whether the breaker lets the next item start at now, or the next of a key. For the thresholds see Stop.
func (m *Machine) Admit(key string, now time.Time) Admission {
	a := m.mem.Breaker.Admit(now)
	if m.byKey() {
		a = m.mem.Keyed.Admit(key, now)
	}
	switch {
	case a.Verdict == limit.Run:
		return Admission{Verdict: Run}
	case a.Verdict == limit.Full:
		return Admission{Verdict: Hold}
	case m.policy.CircuitBreaker.OnOpen == limit.Wait:
		return Admission{Verdict: Hold, Until: a.Until}
	}
	return Admission{Verdict: Refuse}
}
