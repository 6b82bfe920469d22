package errorpolicy

import (
	"slices"

	"prodigy/internal/retry"
)

// Machine applies the policy in one job. Decide changes nothing. ItemSucceeded, Failed, Rejected and Resumed apply a
// record of the log, both live and on replay, so that a replayed Machine equals the live one.
//
// Its size does not grow with the number of items: counts, at most 100 item ids for each type of error, and one batch.
type Machine struct {
	policy Policy
	memory
}

// memory is what a machine remembers: everything but its policy. It is what a checkpoint has of the machine.
type memory struct {
	Total      int                   `json:"total"`
	TotalKnown bool                  `json:"total_known"`
	Counts     counts                `json:"counts"`
	Errors     map[retry.Type]*tally `json:"errors"`
	Batch      []BatchError          `json:"batch"`
	Thresholds thresholds            `json:"thresholds"`
	Halt       string                `json:"stop"` // why the job is to stop, if it is
}

// New returns the machine of a new job.
func New(p Policy) *Machine { return &Machine{p, memory{Errors: map[retry.Type]*tally{}}} }

// BatchError is one failure in a batch.
type BatchError struct {
	ItemID    string     `json:"item_id"`
	ErrorType retry.Type `json:"error_type"`
	Error     string     `json:"error" log:"mask,clip"`
}

// SetTotal sets the number of items once it is known. It checks the failure threshold again, since of few
// items enough may have finished.
func (m *Machine) SetTotal(n int) {
	m.Total, m.TotalKnown = n, true
	m.checkRate()
}

// ItemSucceeded records the success of an item. before is its status until now: a dead letter that is retried
// and succeeds moves from failed to successful.
func (m *Machine) ItemSucceeded(before Status) {
	m.Counts.move(before, Succeeded)
	m.Thresholds.Finished++
	m.checkRate()
}

// Failed records a failed attempt and the action that was decided for it, and returns a full batch of collected
// errors. If the item runs again, nothing is counted; any other action is final, and counts in the metrics, the
// batch and the thresholds.
func (m *Machine) Failed(itemID string, a Action, typ retry.Type, message string, before Status) []BatchError {
	if a.RunsAgain() {
		return nil
	}
	m.Counts.move(before, a.Status())
	m.count(typ, itemID)
	batch := m.collect(BatchError{ItemID: itemID, ErrorType: typ, Error: message})
	m.countFailure(itemID, a)
	return batch
}

// Rejected records that the open breaker refused the item. It is not a failure for thresholds and batches.
func (m *Machine) Rejected(itemID string, before Status) {
	m.Counts.move(before, Rejected)
	m.count(retry.TypeCircuitOpen, itemID)
}

// Resumed records that the job is resumed. The thresholds start from zero if the policy had stopped the job, or
// if anew is set, as for a retry of dead letters, whose failures have been counted. Otherwise they count on.
func (m *Machine) Resumed(anew bool) {
	if m.Halt == "" && !anew {
		return
	}
	m.Thresholds = thresholds{SettledBefore: m.Counts.settled()}
	m.Halt = ""
}

// Stop reports whether the job must stop, and why. It stays so until Resumed.
func (m *Machine) Stop() (reason string, stop bool) { return m.Halt, m.Halt != "" }

// Remainder returns the collected errors of an unfinished batch and empties it, for the end of the map phase.
func (m *Machine) Remainder() []BatchError {
	batch := m.Batch
	m.Batch = nil
	return batch
}

func (m *Machine) count(typ retry.Type, itemID string) {
	if m.Errors[typ] == nil {
		m.Errors[typ] = &tally{}
	}
	t := m.Errors[typ]
	t.Count++
	if len(t.Items) < patternItems && !slices.Contains(t.Items, itemID) {
		t.Items = append(t.Items, itemID)
	}
}

// collect adds a failure to the batch and returns the batch when it is full.
func (m *Machine) collect(e BatchError) []BatchError {
	if m.policy.ErrorCollection.Kind != Batched {
		return nil
	}
	m.Batch = append(m.Batch, e)
	if len(m.Batch) < m.policy.ErrorCollection.Size {
		return nil
	}
	return m.Remainder()
}
