package agent

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/events"
	"prodigy/internal/limit"
	"prodigy/internal/outputs"
	"prodigy/internal/rawjson"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

// Attempt is one execution of a list of steps, with all that is needed to do it here or on another machine: it
// survives JSON. In the map phase it is one try of one item; in the other phases Item is nil and ItemID empty.
type Attempt struct {
	ID            string                 `json:"id"` // <job>/<item>/<n>: its dedupe key, and the agent id
	JobID         string                 `json:"job_id"`
	Workflow      string                 `json:"workflow"`
	CorrelationID string                 `json:"correlation_id"`
	Phase         string                 `json:"phase"`  // setup, map, reduce, merge; empty in standard mode
	Worker        int                    `json:"worker"` // slot, from 1; on a worker of a fleet a slot of that
	Dir           string                 `json:"dir"`
	Env           []workflow.EnvVar      `json:"env,omitempty"`       // of the workflow; secret ones have no value here
	Secrets       []string               `json:"secrets,omitempty"`   // names of variables that override all others
	PerValue      bool                   `json:"per_value,omitempty"` // ARG is the item
	Batch         bool                   `json:"batch,omitempty"`     // the item is a list, ${items}
	Producing     bool                   `json:"producing,omitempty"` // the workflow says which files the agent leaves, ${produces}
	Args          []workflow.Argument    `json:"args,omitempty"`      // the parameters
	Steps         []workflow.Step        `json:"steps"`
	Handler       []workflow.Step        `json:"handler,omitempty"` // of on_item_failure: custom:<name>
	Earlier       []events.StepCompleted `json:"earlier,omitempty"` // of earlier phases: what they captured is visible
	Done          []events.StepCompleted `json:"done,omitempty"`    // the first steps of this phase, which are not run again
	Map           *MapResult             `json:"map,omitempty"`     // in reduce and merge
	Merge         *MergeResult           `json:"merge,omitempty"`   // with workspaces: in reduce and merge

	Assignment
	Continued

	Limits Limits `json:"limits,omitzero"`

	Outputs outputs.Policy `json:"outputs,omitzero"` // what is kept of the output of steps; with an empty Keep nothing

	// Spec identifies what an Executor compiles of an attempt, so that attempts of the same job and phase share
	// it (see SetSpec). Empty: it is compiled for this attempt alone.
	Spec string `json:"spec,omitempty"`
}

// Assignment is what an attempt does not share with the others of its phase, wherever it runs.
type Assignment struct {
	ItemID    string          `json:"item_id,omitempty"`
	ItemIndex int             `json:"item_index"`
	ItemTotal int             `json:"item_total"` // 0 while unknown
	Item      json.RawMessage `json:"item,omitempty"`
	Number    int             `json:"number"` // from 1

	// Token is the number of the record of its start, which no other execution has. It is 0 if it is about no item.
	Token int64 `json:"token,omitempty"`

	Produces []string `json:"produces,omitempty"` // under which names it writes the files that it leaves
	Workspace

	Retrying *events.StepRetrying `json:"retrying,omitempty"` // what a step had used up when the run before this one ended

	// Lost says that a worker with an earlier attempt at the item was lost. A worker reports the beginning of
	// this one before it runs anything, so that an item that kills workers can be told from its bystanders.
	Lost bool `json:"lost,omitempty"`

	// Trace is the span of the attempt, as a traceparent, for the environment of its commands. Empty: nobody
	// traces the job.
	Trace string `json:"trace,omitempty"`

	// Again says which failures are followed by another attempt. Handler runs after the others. nil: none is.
	Again *Again `json:"again,omitempty"`
}

// Workspace is where an attempt works in git, if the workflow has workspaces.
type Workspace struct {
	Base    string `json:"base,omitempty"`    // the commit it begins at
	Resolve string `json:"resolve,omitempty"` // the work whose conflict with Base the steps resolve
	Branch  string `json:"branch,omitempty"`  // of an item: the branch it is on
}

// Continued is what is known of an attempt, or of an earlier one at the same item, from before it was started here.
type Continued struct {
	Due     time.Time                `json:"due,omitzero"`      // when the next try of Retrying is due
	Session *events.AISessionStarted `json:"session,omitempty"` // of an AI coding CLI that did not end by itself

	// Adopted says that an earlier run began the attempt, and it goes on: what files were when it began is not known.
	Adopted bool `json:"adopted,omitempty"`

	// RanOn is, with Adopted, the worker of a fleet that ran it when it was last heard of. It is empty if the
	// attempt may not have begun.
	RanOn string `json:"ran_on,omitempty"`
}

// AttemptID returns what events about the attempt name it by.
func (a *Attempt) AttemptID() events.AttemptID {
	return events.AttemptID{ItemID: a.ItemID, ItemIndex: a.ItemIndex, AgentID: a.ID, Attempt: a.Number}
}

// SetSpec sets a.Spec to a digest of everything that an Executor compiles of a.
func (a *Attempt) SetSpec() {
	// Names of what is captured and of secrets and parameters decide how texts compile.
	data := check.Must(json.Marshal(
		[]any{a.Env, a.Secrets, a.Args, a.PerValue, a.Batch, a.Producing, a.Earlier, a.Steps, a.Handler, a.Base != ""},
	))
	a.Spec = fmt.Sprintf("%x", sha256.Sum256(data))
}

// Again is the retry policy of an item, and what the item has used of it.
type Again struct {
	Policy retry.Policy `json:"policy"`
	State  retry.State  `json:"state"`
}

// Limits are the time limits of an attempt.
type Limits struct {
	Agent time.Duration `json:"agent,omitempty"` // for all of its steps, their waits included; 0 means none

	// Cleanup is the time between SIGTERM and SIGKILL when a time is up. Without it that is the executor's Grace.
	Cleanup *time.Duration `json:"cleanup,omitempty"`

	// SkipHandlerOnTimeout says that Handler does not run when a time is up: what follows then has been decided
	// for all items.
	SkipHandlerOnTimeout bool `json:"skip_handler_on_timeout,omitempty"`
}

// MapResult is what ${map.…} stands for.
type MapResult struct {
	Total       int           `json:"total"`
	Successful  int           `json:"successful"`
	Failed      int           `json:"failed"`
	Skipped     int           `json:"skipped"`
	FailureRate float64       `json:"failure_rate"`
	Duration    time.Duration `json:"duration"`
	ResultsFile string        `json:"results_file"`
	MissingFile string        `json:"missing_file,omitempty"` // only where a step names it
	Spent       limit.Sum     `json:"spent"`                  // by AI agents
}

// MergeResult is what ${merge.…} stands for.
type MergeResult struct {
	Worktree     string `json:"worktree"`      // the directory that the phase runs in
	SourceBranch string `json:"source_branch"` // that the result will be delivered as
	TargetBranch string `json:"target_branch"` // that was checked out when the job began; empty if none was

	// What the job has committed until now.
	Commits  []string `json:"commits,omitempty"`  // the newest first
	Subjects []string `json:"subjects,omitempty"` // of each
	Files    []string `json:"files,omitempty"`    // that differ from the commit that the job began at
}

// Outcome is how an attempt ended.
type Outcome struct {
	Failure  *Failure      `json:"failure,omitempty"` // nil: success
	Handled  bool          `json:"handled,omitempty"` // failed, and Attempt.Handler ran and succeeded
	ExitCode int           `json:"exit_code"`         // of the last step that ran; -1: it had none
	Duration time.Duration `json:"duration"`

	events.ItemOutput // of the last step that ran, bounded (see process.Capture); never in a file yet
	events.Place
	events.Changes // also of an attempt that failed
}

// Failure is a retry.Failure with the label of the step it happened in.
type Failure struct {
	retry.Failure
	Step string `json:"step"`
}

// The phases whose steps see names of their own.
const (
	phaseMap    = "map"
	phaseReduce = "reduce"
	phaseMerge  = "merge"
)

// Printed is what a command printed, without trailing newlines.
type Printed struct {
	Output string `json:"output"`
	Stderr string `json:"stderr"`
}

// An Attempt and its Outcome can be sent elsewhere as JSON, and are the same to the byte when they arrive. The
// types below replace the fields that encoding/json alone would change: raw JSON, and output of commands, which
// may not be UTF-8.

type (
	plainAttempt Attempt
	attemptJSON  struct {
		*plainAttempt
		Item rawjson.Exact `json:"item,omitempty"`
	}
)

// MarshalJSON implements json.Marshaler.
func (a Attempt) MarshalJSON() ([]byte, error) {
	return json.Marshal(attemptJSON{(*plainAttempt)(&a), rawjson.Exact(a.Item)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *Attempt) UnmarshalJSON(data []byte) error {
	read := attemptJSON{plainAttempt: (*plainAttempt)(a)}
	if err := json.Unmarshal(data, &read); err != nil {
		return err
	}
	a.Item = rawOf(read.Item)
	return nil
}

type (
	plainOutcome Outcome
	outcomeJSON  struct {
		*plainOutcome
		Output   rawjson.Exact            `json:"output"`
		Captured map[string]rawjson.Exact `json:"captured,omitempty"`
	}
)

// MarshalJSON implements json.Marshaler.
func (o Outcome) MarshalJSON() ([]byte, error) {
	w := outcomeJSON{plainOutcome: (*plainOutcome)(&o), Output: rawjson.Exact(o.Output)}
	for name, value := range o.Captured {
		if w.Captured == nil {
			w.Captured = make(map[string]rawjson.Exact, len(o.Captured))
		}
		w.Captured[name] = rawjson.Exact(value)
	}
	return json.Marshal(w)
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *Outcome) UnmarshalJSON(data []byte) error {
	read := outcomeJSON{plainOutcome: (*plainOutcome)(o)}
	if err := json.Unmarshal(data, &read); err != nil {
		return err
	}
	o.Output, o.Captured = string(read.Output), nil
	for name, value := range read.Captured {
		if o.Captured == nil {
			o.Captured = make(map[string]json.RawMessage, len(read.Captured))
		}
		o.Captured[name] = rawOf(value)
	}
	return nil
}

// rawOf returns raw JSON that was sent; nil when there was none.
func rawOf(e rawjson.Exact) json.RawMessage {
	if e == "" {
		return nil
	}
	return json.RawMessage(e)
}
