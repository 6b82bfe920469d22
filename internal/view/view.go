// Package view is a job as people see it, computed from the records of its log: counts, running and waiting
// items, throughput, remaining time, failures (type Job), and what happened to one item, and why (type
// Explanation).
//
// It is for display only. Nothing that runs a job depends on it.
package view

import (
	"time"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/retry"
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

	// What agents may cost in total, if a command line set it; else 0.
	MaxCost limit.USD

	// The status of each item, by index. It grows with the number of items, by a byte for each.
	status errorpolicy.Statuses

	// The attempts that have begun and not ended, by item index, and the same by item id.
	running map[int]*Attempt

	byID map[string]*Attempt // the same by item id

	// The items whose work waits to be merged, by index.
	merging map[int]Queued

	// The last lines of running commands, by item id. Output has them; the log has not.
	printed map[string]printedLine

	// The number of slots that this run is known to have used.
	slots int

	// The items between two attempts, by index.
	waiting map[int]waitingItem

	// The breakers that have ever opened.
	breakers map[breakerID]*Breaker

	// How often breakers have opened, by their scope.
	Openings map[string]int

	// The records of what holds the job back, by the name of their events.Hold.
	held map[string]events.Record

	// When something held back starts, and when breakers were open, and half-open.
	HoldPeriods, BreakerPeriods Periods

	// What the agents of each item have cost, by index. It is nil while no agent has ended.
	costs map[int]*ItemCost

	// The finished steps that run once, in order, the first stepsKept. A step that ran again after a failure appears
	// once, with its last outcome.
	Steps []Step
	tries map[string]int // of the steps that have not ended, that failed

	speed   speed
	atItems bool // see AtItems

	// The records from before this run were not shown. See Resumed.
	resumed bool

	// With resumed: how many items the earlier runs knew of.
	known int
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
	State  jobs.State // Running, too, if the run was killed: the log alone cannot tell
	Reason string

	// Reduce did not run in a completed job, since its condition did not hold.
	ReduceHeld bool

	// Items of a completed job have succeeded since reduce ran.
	ReduceStale bool
}

// History is when a job was run.
type History struct {
	Began time.Time // first record
	Last  time.Time // last record

	// When the last run began.
	RunBegan time.Time

	Runs int
}

// Standing is how far a job is.
type Standing struct {
	Phase      string // the current one, or the last
	PhaseBegan time.Time
	Phases     []Phase
	StepsDone  int // of the current phase

	// The last step of the current phase that has printed something, if the phase runs once.
	StepNow string

	// The last line that it printed.
	Printed string
}

// Capacity is how much of a job may run at once, and where.
type Capacity struct {
	MaxParallel int

	// MaxParallel is the number of slots of the workers of a fleet.
	OnFleet bool

	// How many workers of the fleet take part.
	Workers int

	// The fleet that the items run on. It is empty if they run on this machine.
	Broker string

	// The rates of agents and steps that the workflow sets.
	Rates []events.StartRate

	// The last change of the adaptive limit. It is nil if the job does not adapt its concurrency, or has not yet.
	Limit *events.ConcurrencyChanged
}

// Items is what has become of the items of a job.
type Items struct {
	// The number of chosen items. Until the selection is complete, the number of those found so far.
	Total int

	Complete bool // the selection is over
	Counts   Counts

	// The number of items whose results were reused from an earlier job.
	Reused int

	// The run retries dead letters.
	Letters bool
}

// Delivery is what a job with workspaces has made of the work of its items.
type Delivery struct {
	events.Delivered // empty in a job without workspaces

	// The number of items whose work was merged.
	Merged int

	Merges Merges
}

// Measures is what is known of the attempts that have ended.
type Measures struct {
	// How long the attempts took that ended by themselves.
	Durations duration.Histogram

	// The slowest of them, the slowest first.
	Slowest []Attempt

	Stragglers Stragglers

	// The number of attempts whose worker of a fleet was lost.
	Lost int

	// The number of retries of items and of steps that were decided.
	Retries int

	Retried Retried
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
	return check.Counted(s.Found, "attempt")
}

// Counts are the numbers of items by outcome.
type Counts = errorpolicy.Outcomes

// Phase is a phase of the job that has begun.
type Phase struct {
	Name     string
	Began    time.Time
	Duration time.Duration
	Done     bool
}

// Attempt is one attempt of an item. JSON has of it what status shows, but for how long it takes.
type Attempt struct {
	ItemID string `json:"item_id"`
	Index  int    `json:"-"`
	Number int    `json:"attempt"`
	Worker int    `json:"worker"`

	// It was given to a fleet.
	Fleet bool `json:"-"`

	// It is zero if no worker has the attempt yet, or it runs on this machine.
	events.Place

	// The step that it is in, as far as it is known; of a failed attempt, the step that failed.
	Step string `json:"step,omitempty"`

	Began time.Time `json:"-"`

	// When a worker of a fleet began with it, as far as that is known.
	Placed time.Time `json:"-"`

	// When the next try of its step is due. It is zero while no step waits.
	Due time.Time `json:"-"`

	// It waits for that until the job is continued. Only InFlight sets it.
	Held bool `json:"-"`

	// The last line that its running command has printed, as far as it is known. Only InFlight sets it.
	Printed string `json:"-"`

	// How long it took, once it has ended.
	Duration time.Duration `json:"-"`

	// The type of its failure. It is empty if it has not failed.
	Type retry.Type `json:"-"`

	// It takes unusually long.
	Straggling bool `json:"straggling,omitempty"`
}

// waitingItem is an item between two attempts, and when the next is due.
type waitingItem struct {
	id  string
	due time.Time
}

// printedLine is the last line that a step of an item has printed.
type printedLine struct{ step, text string }

// New returns the view of a job before its first record.
func New() *Job {
	return &Job{
		Ending: Ending{State: jobs.Running}, running: map[int]*Attempt{}, byID: map[string]*Attempt{},
		merging: map[int]Queued{}, printed: map[string]printedLine{}, held: map[string]events.Record{},
		waiting: map[int]waitingItem{}, breakers: map[breakerID]*Breaker{}, Openings: map[string]int{},
		tries: map[string]int{}, Measures: Measures{Retried: Retried{Types: map[retry.Type]int{}}},
	}
}

// Resumed returns a view to which only the records from a resume on will be applied; earlier are the metrics before it.
func Resumed(earlier errorpolicy.Metrics) *Job {
	j := New()
	j.resumed, j.known, j.Counts = true, earlier.TotalItems, earlier.Outcomes
	j.speed.before = j.Counts.Finished()
	return j
}

// AtItems reports whether the job is at work on items: in its map phase, or running dead letters again.
func (j *Job) AtItems() bool { return j.atItems && j.State == jobs.Running }

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
