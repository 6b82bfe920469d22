// Package view is a job as people see it, computed from the records of its log: counts, running and waiting
// items, throughput, remaining time, failures (type Job), and what happened to one item, and why (type
// Explanation).
//
// It is for display only. Nothing that runs a job depends on it.
package view

import (
	"time"

	"prodigy/internal/duration"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/limit"
	"prodigy/internal/retry"
)

// State is the state of a job according to its log.
type State string

const (
	Running   State = "running" // or killed: the log alone cannot tell
	Completed State = "completed"
	Failed    State = "failed"
	Paused    State = "paused"
	Cancelled State = "cancelled"
)

// Job is the view of a job after the records applied so far. Its memory is bounded, except for the status of
// each item and the running and waiting ones. Create one with New or Resumed.
type Job struct {
	Identity
	Ending
	History
	Standing
	Capacity
	Items
	Delivery
	Measures
	Failures Failures
	Spent    limit.Total // by AI agents
	MaxCost  limit.USD   // that they may cost in all, if a command line said so

	status  errorpolicy.Statuses // by item index
	running map[int]*Attempt     // by item index
	byID    map[string]*Attempt  // the same by item id
	merging map[int]queued       // items whose work waits to be merged, by index
	printed map[string]string    // last lines of commands that run, by item id
	slots   int                  // that this run is known to have
	waiting waiting
	circuit circuit
	pauses  pauses
	held    map[string]events.Record // what holds, by the name of events.Hold
	costs   map[int]*ItemCost        // of items, by index
	speed   speed
	steps   steps
	atItems bool // see AtItems
	resumed bool // the records from before this run were not shown
	known   int  // with resumed: how many items the runs before knew of
}

// Identity is what a job is from its beginning on.
type Identity struct {
	ID       string
	Workflow string
	Mode     string
	Version  string
}

// Ending is the state of a job and why it is in that.
type Ending struct {
	State       State
	Reason      string
	ReduceHeld  bool // reduce did not run in a completed job, since its condition did not hold
	ReduceStale bool // items of a completed job have succeeded since reduce ran
}

// History is when a job was run.
type History struct {
	Began    time.Time // first record
	Last     time.Time // last record
	RunBegan time.Time // of the run that Last is in
	Runs     int
}

// Standing is how far a job is.
type Standing struct {
	Phase      string // the current one, or the last
	PhaseBegan time.Time
	Phases     []Phase
	StepsDone  int    // of the current phase
	StepNow    string // of the current phase, if it runs once: the last step that has printed something
	Printed    string // the last line of that
}

// Capacity is how much of a job may run at once, and where.
type Capacity struct {
	MaxParallel int
	OnFleet     bool   // MaxParallel are the slots of the workers of a fleet
	Workers     int    // of these, those that take part
	Broker      string // of the fleet that the items run on; empty if they run on this machine

	Rates []events.StartRate         // of agents and steps, that the workflow says
	Limit *events.ConcurrencyChanged // the last change; nil if there was none
}

// Items is what has become of the items of a job.
type Items struct {
	Total    int  // chosen items; until Complete, those found so far
	Complete bool // the selection is over
	Counts   Counts
	Reused   int  // items whose results were taken over from an earlier job
	Letters  bool // dead letters are being run again
}

// Delivery is what a job with workspaces has made of the work of its items.
type Delivery struct {
	Base   string // the commit that the job began at
	Head   string // the commit with all that was merged
	Branch string // that it was delivered as
	Merged int    // items whose work was merged
	Merges Merges
}

// Measures is what is known of the attempts that have ended.
type Measures struct {
	Durations  duration.Histogram // of those that ended by themselves
	Slowest    []Attempt          // the longest first
	Stragglers Stragglers
	Lost       int // those whose worker of a fleet was lost
	Retries    int // decided, of items and of steps
	Retried    Retried
}

// Stragglers are the attempts that took unusually long.
type Stragglers struct {
	Found int `json:"found"`
}

// Words returns their number, for people; "": there were none.
func (s Stragglers) Words() string {
	if s.Found == 0 {
		return ""
	}
	return events.Counted(s.Found, "attempt", "attempts")
}

// Counts are the numbers of items by outcome. A retried dead letter counts by its last outcome.
type Counts struct {
	Successful int `json:"successful"`
	Failed     int `json:"failed"`
	Skipped    int `json:"skipped"`
	Rejected   int `json:"rejected"`
}

// Finished returns the number of items that have an outcome.
func (c Counts) Finished() int { return c.Successful + c.Failed + c.Skipped + c.Rejected }

// Phase is a phase of the job that has begun.
type Phase struct {
	Name     string
	Began    time.Time
	Duration time.Duration
	Done     bool
}

// Attempt is one attempt of an item.
type Attempt struct {
	ItemID   string
	Index    int
	Number   int
	Worker   int
	Fleet    bool   // it is given to a worker of a fleet
	Node     string // the worker of a fleet that runs it, as far as it is known
	Host     string // that the worker is on, if it has another name
	Slot     int    // of that worker
	Step     string // that it is in, as far as it is known; of one that failed, the step that failed
	Began    time.Time
	Due      time.Time     // of the next try of its step, while it waits for that
	Held     bool          // it waits for that until the job is continued
	Printed  string        // the last line that its running command has printed, as far as it is known
	Duration time.Duration // of one that has ended
	Type     retry.Type    // of its failure; empty means none

	Straggling bool // it takes unusually long
}

// New returns the view of a job before its first record.
func New() *Job {
	return &Job{
		Ending: Ending{State: Running}, running: map[int]*Attempt{}, byID: map[string]*Attempt{},
		merging: map[int]queued{},
		printed: map[string]string{}, held: map[string]events.Record{}, waiting: newWaiting(), circuit: newCircuit(),
	}
}

// Resumed returns a view to which only the records from a resume on will be applied; earlier are the metrics before it.
func Resumed(earlier errorpolicy.Metrics) *Job {
	j := New()
	j.resumed, j.known = true, earlier.TotalItems
	j.Counts = Counts{
		Successful: earlier.Successful, Failed: earlier.Failed, Skipped: earlier.Skipped,
		Rejected: earlier.Rejected,
	}
	j.speed.before = j.Counts.Finished()
	return j
}

// AtItems reports whether the job is at work on items: in its map phase, or running dead letters again.
func (j *Job) AtItems() bool { return j.atItems && j.State == Running }

// Retried are the retries of a job by the type of the failure before each, and the newest of them.
type Retried struct {
	Types map[retry.Type]int
	Last  Retry
}

// Retry is the decision to run an item, or a step, once more.
type Retry struct {
	ItemID string // empty: a step of a phase that runs once
	Step   string
	Type   retry.Type // of the failure before
	Error  string
	Due    time.Time
}

// Attempts returns the number of attempts that are over: they have ended by themselves, or were lost with
// their workers.
func (j *Job) Attempts() int { return j.Durations.N() + j.Lost }

// ItemCost is what the agents of an item have cost.
type ItemCost struct {
	ItemID string
	Index  int
	limit.Sum
}
