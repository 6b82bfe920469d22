package fleet

import (
	"encoding/json"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/outputs"
)

// Stop says how far a job is to stop.
type Stop string

const (
	Hold  Stop = "hold"  // nothing begins, waits end
	Grace Stop = "grace" // what runs is ended, with the grace
	Kill  Stop = "kill"  // what runs is killed
)

// Job is what workers know of a job without being given an attempt of it.
type Job struct {
	V        int           `json:"v"`
	ID       string        `json:"id"`
	Owner    string        `json:"owner"` // of the coordinator: each has another
	Version  string        `json:"version"`
	Lease    time.Duration `json:"lease"`
	Requires []string      `json:"requires,omitempty"`
	Dir      string        `json:"dir"`
	Probe    string        `json:"probe"` // file that is in Dir, with this as its name
	Grace    time.Duration `json:"grace"`
	Stop     Stop          `json:"stop,omitempty"`
	Secrets  bool          `json:"secrets,omitempty"` // there are some, to be asked for
}

// Spec is what all attempts of a phase have in common. It is sent once to each worker.
type Spec struct {
	Template agent.Attempt `json:"template"`
	Seed     uint64        `json:"seed"`
	LogSteps bool          `json:"log_steps,omitempty"`
	Claude   []string      `json:"claude,omitempty"`
	Agents   bool          `json:"agents,omitempty"`
	Layers   []string      `json:"layers,omitempty"`
}

// Task is an attempt that is given out: what it has besides its spec.
type Task struct {
	V       int             `json:"v"`
	Token   int64           `json:"token"`
	Spec    string          `json:"spec"` // digest
	Again   bool            `json:"again,omitempty"`
	Wait    time.Duration   `json:"wait,omitempty"` // until the next try of the step that it goes on with
	Attempt json.RawMessage `json:"attempt,omitempty"`
	Ref     string          `json:"ref,omitempty"` // object that has Attempt instead
}

// Kind says what a Report is about.
type Kind string

const (
	Placed   Kind = "placed"   // it has run for some time
	Event    Kind = "event"    // something happened in it
	Printed  Kind = "printed"  // it printed something
	Parked   Kind = "parked"   // it waits for the next try of a step, without a slot
	Ended    Kind = "ended"    // it has an outcome
	Returned Kind = "returned" // it was stopped, and is given back
	Broken   Kind = "broken"   // the worker could not run it
	Dropped  Kind = "dropped"  // the worker had no contact and has killed it
)

// Report is what a worker says of an attempt.
type Report struct {
	V       int            `json:"v"`
	Token   int64          `json:"token"`
	Index   int            `json:"index"` // numbers the reports of the attempt
	Kind    Kind           `json:"kind"`
	Holder  Holder         `json:"holder"`
	Event   []byte         `json:"event,omitempty"` // a line of a log
	Entry   *outputs.Entry `json:"entry,omitempty"`
	For     time.Duration  `json:"for,omitempty"` // of Parked
	Outcome *agent.Outcome `json:"outcome,omitempty"`
	Reason  string         `json:"reason,omitempty"`
	Ref     string         `json:"ref,omitempty"` // object that has the report instead
}

// Claim asks for the right to run an attempt.
type Claim struct {
	Token  int64  `json:"token"`
	Holder Holder `json:"holder"`
	First  bool   `json:"first"`
}

// ClaimAnswer answers it.
type ClaimAnswer struct {
	Word  Word          `json:"word"`
	Again time.Duration `json:"again,omitempty"`
}

// Call is a call of a method of agent.Host by a worker. It is repeated with the same ID until it is answered, and has its effect once.
type Call struct {
	ID     string          `json:"id"`
	Method string          `json:"method"`
	Token  int64           `json:"token,omitempty"`
	Args   json.RawMessage `json:"args"`
	Curve  string          `json:"curve"` // public key that the answer is sealed for
	From   string          `json:"from"`  // instance
}

// CallAnswer answers it.
type CallAnswer struct {
	Pending bool            `json:"pending,omitempty"` // ask again
	Result  json.RawMessage `json:"result,omitempty"`
	Err     string          `json:"err,omitempty"`
	Sealed  []byte          `json:"sealed,omitempty"` // Result, for Call.Curve
	Key     string          `json:"key,omitempty"`    // public key of who sealed it
}
