// Package dlq keeps the items that failed for good (dead letters), for people to inspect and retry.
//
// A Queue is a journal on disk of Entry values. A Projection keeps it up to date with the log of the job. The
// functions Read, Each, Find and IDs read a queue without opening it for writing.
package dlq

import (
	"encoding/json"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/retry"
)

// Entry is one dead letter.
type Entry struct {
	ItemID               string          `json:"item_id"`
	ItemIndex            int             `json:"item_index"`
	Item                 json.RawMessage `json:"item"`
	CorrelationID        string          `json:"correlation_id"`
	JobID                string          `json:"job_id"`
	Workflow             string          `json:"workflow"`
	FirstAttempt         time.Time       `json:"first_attempt"`
	LastAttempt          time.Time       `json:"last_attempt"`
	FailureCount         int             `json:"failure_count"`
	FailureHistory       []Failure       `json:"failure_history"`
	ErrorSignature       string          `json:"error_signature"`
	ReprocessEligible    bool            `json:"reprocess_eligible"`
	ManualReviewRequired bool            `json:"manual_review_required"`
	RetryCount           int             `json:"retry_count"` // times it was sent again from the queue
}

// Last returns the newest failure of an entry.
func (e Entry) Last() Failure {
	if n := len(e.FailureHistory); n > 0 {
		return e.FailureHistory[n-1]
	}
	return Failure{}
}

// Failure is one failed attempt, with the end of its output.
type Failure struct {
	Attempt    int           `json:"attempt"`
	Time       time.Time     `json:"time"`
	ErrorType  retry.Type    `json:"error_type"`
	Rule       string        `json:"rule,omitempty"` // of an AI coding CLI: which rule told the type
	ExitCode   *int          `json:"exit_code,omitempty"`
	Message    string        `json:"message"`
	Step       string        `json:"step"`
	AgentID    string        `json:"agent_id"`
	DurationMS events.Millis `json:"duration_ms"`
	StdoutTail string        `json:"stdout_tail,omitempty"`
	StderrTail string        `json:"stderr_tail,omitempty"`
	Retries    []StepRetry   `json:"retries,omitempty"`

	Commit    string            `json:"commit,omitempty"`    // of a job with workspaces: what the attempt had changed
	Conflicts []events.Conflict `json:"conflicts,omitempty"` // of error type merge_conflict
}

// StepRetry is one command-level retry within a failed attempt.
type StepRetry struct {
	DelayMS events.Millis `json:"delay_ms"`
	Error   string        `json:"error"`
}
