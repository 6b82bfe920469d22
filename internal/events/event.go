// Package events is the record of a job: the typed events, the append-only log they are written to, and its readers.
package events

import (
	"encoding/json"
	"slices"
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/retry"
)

// Record is one line of the log: an event, and where and when it happened.
type Record struct {
	Seq           int64 // from 1, without gaps within a job
	Time          time.Time
	JobID         string
	CorrelationID string // the job id, or <job_id>/<item_id> for all that is about an item
	Event         Event
}

// Event is one of the structs of this file, by value. The list types holds them all.
type Event interface {
	// Type returns the word that stands under "type" in the log.
	Type() string
	// About returns the id of the item that the event is about, or "" when it is about the job.
	About() string
}

// BetweenRuns reports whether an event may also be written while nobody runs the job, so that its time belongs to no run.
func BetweenRuns(e Event) bool {
	switch e.(type) {
	case DLQItemRemoved, DLQItemsEvicted:
		return true
	}
	return false
}

// types holds a zero event of every type that a log may contain.
var types = []Event{
	JobStarted{},
	JobCompleted{},
	JobFailed{},
	JobPaused{},
	JobResumed{},
	PhaseStarted{},
	PhaseCompleted{},
	StepCompleted{},
	StepPrinted{},
	StepSkipped{},
	ItemsSelected{},
	AgentStarted{},
	AgentCompleted{},
	AgentFailed{},
	AgentSkipped{},
	AgentInterrupted{},
	AgentProgress{},
	StepRetrying{},
	StepFailed{},
	CircuitOpen{},
	CircuitHalfOpen{},
	CircuitClosed{},
	DLQItemAdded{},
	DLQItemRemoved{},
	DLQItemsReprocessed{},
	DLQItemsEvicted{},
	ErrorBatch{},
}

// Types returns a zero event of every type that a log may contain.
func Types() []Event { return slices.Clone(types) }

// Decision words of AgentFailed.Action are those of errorpolicy.Action.

// JobStarted begins the log of a job.
type JobStarted struct {
	Workflow    string `json:"workflow"`
	Mode        string `json:"mode"`
	TotalItems  *int   `json:"total_items,omitempty"` // absent while unknown
	MaxParallel int    `json:"max_parallel"`
	Seed        uint64 `json:"seed"`
	Version     string `json:"version"`
}

// JobCompleted ends a run after which every item has an outcome, including dead letters and skipped items.
type JobCompleted struct {
	DurationMS Millis              `json:"duration_ms"`
	Metrics    errorpolicy.Metrics `json:"metrics"`
	Reason     string              `json:"reason"`
}

// JobFailed ends a run that a step of a phase or the policy stopped.
type JobFailed struct {
	DurationMS Millis              `json:"duration_ms"`
	Metrics    errorpolicy.Metrics `json:"metrics"`
	Reason     string              `json:"reason"`
}

// JobPaused ends a run that was interrupted and can be resumed.
type JobPaused struct {
	Reason string `json:"reason"`
}

// JobResumed begins every continuation of a job: by resume, and by a retry of its dead letters.
type JobResumed struct {
	Reason    string `json:"reason,omitempty"` // ForResume or ForDeadLetters
	Completed int    `json:"completed"`
	Pending   int    `json:"pending"`
	InFlight  int    `json:"in_flight"`
	Waiting   int    `json:"waiting,omitempty"`    // of Pending: those that wait for their next attempt
	Phase     string `json:"phase,omitempty"`      // that is not finished; empty in standard mode
	StepsDone int    `json:"steps_done,omitempty"` // of that phase, if it runs once
	Reduce    bool   `json:"reduce,omitempty"`     // the phases after the map phase are to be run again, now or by a later resume
}

// Why a job is taken up again.
const (
	ForResume      = "resume"
	ForDeadLetters = "dlq_retry"
)

// PhaseStarted begins the setup, map, reduce or merge phase.
type PhaseStarted struct {
	Phase string `json:"phase"`
}

// PhaseCompleted ends a successful phase; a failed one has no such record.
type PhaseCompleted struct {
	Phase      string `json:"phase"`
	DurationMS Millis `json:"duration_ms"`
}

// StepCompleted is written for the steps of the phases that run once (setup, reduce, merge, and the commands of a standard
// workflow, whose phase is empty), so that a resume goes on with the first step that has no such record, and knows what the
// earlier ones gave. Forgiven failures are completed steps too.
type StepCompleted struct {
	Phase      string `json:"phase,omitempty"`
	Step       string `json:"step"` // label
	StepIndex  int    `json:"step_index"`
	Kind       string `json:"kind"`
	ID         string `json:"id,omitempty"`
	Capture    string `json:"capture,omitempty"` // the name its output was captured under
	DurationMS Millis `json:"duration_ms"`
	ExitCode   int    `json:"exit_code"`
	Output     string `json:"output"` // bounded, see process.Capture
	Stderr     string `json:"stderr,omitempty"`

	CaptureFormat string `json:"capture_format,omitempty"` // what the output is to later steps
	Failed        bool   `json:"failed,omitempty"`         // and the failure was forgiven
	Skipped       bool   `json:"skipped,omitempty"`        // its condition was not met
	Masked        bool   `json:"masked,omitempty"`         // there were secrets in Output or Stderr, so a resume cannot use them
	Printed       bool   `json:"printed,omitempty"`        // a StepPrinted before this has Output already

	Validation json.RawMessage `json:"validation,omitempty"` // what its validation found
}

// StepPrinted carries the output of a step, for display only, when more steps (hooks, handlers) follow before it completes, and the output
// of each of those. Like StepCompleted it is written for the phases that run once. A resume that runs the step again writes it again.
type StepPrinted struct {
	Phase  string `json:"phase,omitempty"`
	Step   string `json:"step"`   // label
	Output string `json:"output"` // bounded, see process.Capture
}

// StepSkipped records that a step was not run because its when condition was false.
type StepSkipped struct {
	ItemID string `json:"item_id,omitempty"`
	Phase  string `json:"phase,omitempty"`
	Step   string `json:"step"` // label
	When   string `json:"when"`
}

// ItemsSelected records the end of the selection and the number of items.
type ItemsSelected struct {
	TotalItems int `json:"total_items"`
}

// AgentStarted begins one attempt of an item.
type AgentStarted struct {
	ItemID    string `json:"item_id"`
	ItemIndex int    `json:"item_index"`
	AgentID   string `json:"agent_id"`
	Attempt   int    `json:"attempt"`
	Worker    int    `json:"worker"`
}

// AgentCompleted ends an attempt that succeeded.
type AgentCompleted struct {
	ItemID     string                     `json:"item_id"`
	ItemIndex  int                        `json:"item_index"`
	AgentID    string                     `json:"agent_id"`
	Attempt    int                        `json:"attempt"`
	Worker     int                        `json:"worker"`
	DurationMS Millis                     `json:"duration_ms"`
	ExitCode   int                        `json:"exit_code"`
	Captured   map[string]json.RawMessage `json:"captured,omitempty"`
	Output     string                     `json:"output,omitempty"`
	OutputFile string                     `json:"output_file,omitempty"` // instead of Output past 64 KiB; synced before the record
	OutputCRC  string                     `json:"output_crc,omitempty"`  // CRC32C of that file; absent in records of older versions
}

// AgentFailed is a failed attempt of an item and the decision that follows it: one record, so that no crash comes between.
// With ErrorType circuit_open nothing was run: AgentID is empty and Attempt counts the tries made before.
type AgentFailed struct {
	ItemID         string                     `json:"item_id"`
	ItemIndex      int                        `json:"item_index"`
	AgentID        string                     `json:"agent_id"`
	Attempt        int                        `json:"attempt"`
	Worker         int                        `json:"worker"`
	DurationMS     Millis                     `json:"duration_ms"`
	ExitCode       *int                       `json:"exit_code,omitempty"` // absent when there is none: a signal, a timeout
	Captured       map[string]json.RawMessage `json:"captured,omitempty"`
	Output         string                     `json:"output,omitempty"`
	OutputFile     string                     `json:"output_file,omitempty"`
	OutputCRC      string                     `json:"output_crc,omitempty"`
	Step           string                     `json:"step"`
	Signal         string                     `json:"signal,omitempty"`
	Error          string                     `json:"error"`
	ErrorType      retry.Type                 `json:"error_type"`
	ErrorSignature string                     `json:"error_signature"`
	StdoutTail     string                     `json:"stdout_tail,omitempty"`
	StderrTail     string                     `json:"stderr_tail,omitempty"`
	Action         errorpolicy.Action         `json:"action"`
	Reason         string                     `json:"reason,omitempty"`   // why this action, where the policy has something to say
	Matched        string                     `json:"matched,omitempty"`  // the entry of the policy's retry_on that recognised it
	DelayMS        *Millis                    `json:"delay_ms,omitempty"` // with action retry
	RetryAt        *time.Time                 `json:"retry_at,omitempty"` // with action retry
	Retry          *RetryState                `json:"retry,omitempty"`    // with action retry: what the next decision needs
}

// Rejected reports whether the open circuit breaker refused the item, so that nothing was run.
func (e AgentFailed) Rejected() bool { return e.ErrorType == retry.TypeCircuitOpen && e.AgentID == "" }

// Status returns how the item is counted from then on; Pending when it is run again.
func (e AgentFailed) Status() errorpolicy.Status {
	if e.Rejected() {
		return errorpolicy.Rejected
	}
	return e.Action.Status()
}

// RetryState is retry.State as it is written to the log.
type RetryState struct {
	Attempts   int        `json:"attempts"`
	WaitedMS   Millis     `json:"waited_ms"`
	PreviousMS Millis     `json:"previous_ms"`
	ExpiresAt  *time.Time `json:"budget_expires_at,omitempty"`
}

// AgentSkipped records that an item counts as skipped without an attempt that was skipped, and why.
type AgentSkipped struct {
	ItemID    string `json:"item_id"`
	ItemIndex int    `json:"item_index"`
	Reason    string `json:"reason"`
}

// AgentInterrupted is a stop, not a failure: the attempt is given back.
type AgentInterrupted struct {
	ItemID    string `json:"item_id"`
	ItemIndex int    `json:"item_index"`
	AgentID   string `json:"agent_id"`
	Attempt   int    `json:"attempt"`
	Reason    string `json:"reason"`
}

// AgentProgress records which step an attempt has reached. It is written only with --log-steps.
type AgentProgress struct {
	ItemID    string `json:"item_id"`
	Step      string `json:"step"`
	StepIndex int    `json:"step_index"`
	Steps     int    `json:"steps"`
}

// StepRetrying records that a step failed and will be retried. ItemID is empty outside the map phase.
type StepRetrying struct {
	ItemID          string     `json:"item_id,omitempty"`
	Step            string     `json:"step"`
	Attempt         int        `json:"attempt"` // the one that failed
	ErrorType       retry.Type `json:"error_type"`
	Error           string     `json:"error"`
	Matched         string     `json:"matched,omitempty"` // the entry of retry_on that recognised it
	ComputedDelayMS Millis     `json:"computed_delay_ms"`
	DelayMS         Millis     `json:"delay_ms"`  // after jitter
	WaitedMS        Millis     `json:"waited_ms"` // this delay included
	BudgetLeftMS    *Millis    `json:"budget_left_ms,omitempty"`
	BudgetExpiresAt *time.Time `json:"budget_expires_at,omitempty"`
}

// StepFailed records that a step failed for good, and what follows. It has the end of the output of the step unless an AgentFailed
// follows, which has it then.
type StepFailed struct {
	ItemID    string       `json:"item_id,omitempty"`
	Step      string       `json:"step"`
	Attempts  int          `json:"attempts"`
	Reason    retry.Reason `json:"reason"`
	Action    string       `json:"action"` // stop, continue, fallback or handler
	Error     string       `json:"error"`
	ErrorType retry.Type   `json:"error_type"`
	ExitCode  *int         `json:"exit_code,omitempty"`

	StdoutTail string `json:"stdout_tail,omitempty"`
	StderrTail string `json:"stderr_tail,omitempty"`
}

// Scope of the circuit events: "workflow", or the id of the step.

// CircuitOpen records that a breaker opened, and until when it rejects everything.
type CircuitOpen struct {
	Scope               string    `json:"scope"`
	ConsecutiveFailures int       `json:"consecutive_failures"`
	Until               time.Time `json:"until"`
}

// CircuitHalfOpen records that a breaker lets tests through.
type CircuitHalfOpen struct {
	Scope string `json:"scope"`
}

// CircuitClosed records that a breaker closed after enough successful tests.
type CircuitClosed struct {
	Scope     string `json:"scope"`
	Successes int    `json:"successes"`
}

// DLQItemAdded records that an item became a dead letter.
type DLQItemAdded struct {
	ItemID         string `json:"item_id"`
	ErrorSignature string `json:"error_signature"`
	FailureCount   int    `json:"failure_count"`
}

// DLQItemRemoved records that an item is no longer a dead letter.
type DLQItemRemoved struct {
	ItemID string `json:"item_id"`
	Reason string `json:"reason"`
}

// DLQItemsReprocessed summarizes a retry of dead letters.
type DLQItemsReprocessed struct {
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
}

// DLQItemsEvicted records that dead letters were deleted by dlq purge or dlq clear.
type DLQItemsEvicted struct {
	Count int `json:"count"`
}

// ErrorBatch is a group of collected failures, with error_collection batched.
type ErrorBatch struct {
	Size   int                      `json:"size"`
	Errors []errorpolicy.BatchError `json:"errors"`
}

// The types say their names.

func (JobStarted) Type() string          { return "JobStarted" }
func (JobCompleted) Type() string        { return "JobCompleted" }
func (JobFailed) Type() string           { return "JobFailed" }
func (JobPaused) Type() string           { return "JobPaused" }
func (JobResumed) Type() string          { return "JobResumed" }
func (PhaseStarted) Type() string        { return "PhaseStarted" }
func (PhaseCompleted) Type() string      { return "PhaseCompleted" }
func (StepCompleted) Type() string       { return "StepCompleted" }
func (StepPrinted) Type() string         { return "StepPrinted" }
func (StepSkipped) Type() string         { return "StepSkipped" }
func (ItemsSelected) Type() string       { return "ItemsSelected" }
func (AgentStarted) Type() string        { return "AgentStarted" }
func (AgentCompleted) Type() string      { return "AgentCompleted" }
func (AgentFailed) Type() string         { return "AgentFailed" }
func (AgentSkipped) Type() string        { return "AgentSkipped" }
func (AgentInterrupted) Type() string    { return "AgentInterrupted" }
func (AgentProgress) Type() string       { return "AgentProgress" }
func (StepRetrying) Type() string        { return "StepRetrying" }
func (StepFailed) Type() string          { return "StepFailed" }
func (CircuitOpen) Type() string         { return "CircuitOpen" }
func (CircuitHalfOpen) Type() string     { return "CircuitHalfOpen" }
func (CircuitClosed) Type() string       { return "CircuitClosed" }
func (DLQItemAdded) Type() string        { return "DLQItemAdded" }
func (DLQItemRemoved) Type() string      { return "DLQItemRemoved" }
func (DLQItemsReprocessed) Type() string { return "DLQItemsReprocessed" }
func (DLQItemsEvicted) Type() string     { return "DLQItemsEvicted" }
func (ErrorBatch) Type() string          { return "ErrorBatch" }

// These events are about an item.

func (e AgentStarted) About() string     { return e.ItemID }
func (e AgentCompleted) About() string   { return e.ItemID }
func (e AgentFailed) About() string      { return e.ItemID }
func (e AgentSkipped) About() string     { return e.ItemID }
func (e AgentInterrupted) About() string { return e.ItemID }
func (e AgentProgress) About() string    { return e.ItemID }
func (e StepRetrying) About() string     { return e.ItemID }
func (e StepFailed) About() string       { return e.ItemID }
func (e DLQItemAdded) About() string     { return e.ItemID }
func (e DLQItemRemoved) About() string   { return e.ItemID }

// These events are about the job.

func (JobStarted) About() string          { return "" }
func (JobCompleted) About() string        { return "" }
func (JobFailed) About() string           { return "" }
func (JobPaused) About() string           { return "" }
func (JobResumed) About() string          { return "" }
func (PhaseStarted) About() string        { return "" }
func (PhaseCompleted) About() string      { return "" }
func (StepCompleted) About() string       { return "" }
func (StepPrinted) About() string         { return "" }
func (e StepSkipped) About() string       { return e.ItemID }
func (ItemsSelected) About() string       { return "" }
func (CircuitOpen) About() string         { return "" }
func (CircuitHalfOpen) About() string     { return "" }
func (CircuitClosed) About() string       { return "" }
func (DLQItemsReprocessed) About() string { return "" }
func (DLQItemsEvicted) About() string     { return "" }
func (ErrorBatch) About() string          { return "" }
