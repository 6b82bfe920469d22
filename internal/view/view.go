// Package view is a job as people see it, computed from the records of its log: counts, running and waiting
// items, throughput, remaining time, failures (type Job), and what happened to one item, and why (type
// Explanation).
//
// It is for display only. Nothing that runs a job depends on it.
package view

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"time"

	"prodigy/internal/duration"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/limit"
	"prodigy/internal/outputs"
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

// Apply adds a record.
func (j *Job) Apply(r events.Record) {
	if events.BetweenRuns(r.Event) {
		return
	}
	if j.Began.IsZero() {
		j.ID, j.Began, j.RunBegan, j.Runs = r.JobID, r.Time, r.Time, 1
	}
	j.Last = r.Time
	switch e := r.Event.(type) {
	case events.JobStarted:
		j.started(e)
	case events.JobResumed:
		j.ReduceStale, j.ReduceHeld, j.Rates, j.Broker = false, false, e.Rates, e.Broker
		j.capped(e.MaxCostUSD)
		j.resume(r.Time, e)
	case events.JobCompleted:
		j.ReduceStale, j.ReduceHeld = e.ReduceStale, e.ReduceHeld
		j.Head, j.Branch = cmp.Or(e.Head, j.Head), e.Branch
	case events.ScaleRequested:
		j.MaxParallel, j.OnFleet, j.Workers = e.MaxParallel, e.Fleet, e.Workers
	case events.RetryNowRequested:
		j.retryNow(r.Time, e)
	case events.PhaseStarted:
		j.phaseStarted(r.Time, e.Phase)
	case events.PhaseCompleted:
		j.phaseCompleted(e)
	case events.StepCompleted:
		j.StepsDone++
		j.StepNow, j.Printed = "", ""
		j.steps.completed(r.Time, e)
	case events.StepFailed:
		j.circuit.failed(e.Step, e.ErrorType, e.Error)
		if e.ItemID == "" {
			j.steps.failed(r.Time, j.Phase, e)
		}
	case events.ItemsSelected:
		j.Total, j.Complete = e.TotalItems, true
	case events.StepRetrying:
		due := r.Time.Add(time.Duration(e.DelayMS))
		j.retried(Retry{ItemID: e.ItemID, Step: e.Step, Type: e.ErrorType, Error: e.Error, Due: due})
		if e.ItemID == "" {
			j.steps.retrying(e)
		}
		j.circuit.failed(e.Step, e.ErrorType, e.Error)
		j.at(e.ItemID, e.Step, due)
	case events.ConcurrencyChanged:
		j.Limit = &e
	case events.AgentUsage:
		j.used(e)
	default:
		j.applyAgent(r)
	}
	j.hold(r)
	j.applyMerge(r)
	if end, ok := events.RunEndOf(r.Event); ok {
		j.end(State(end.State), end.Reason)
	}
	if scope, t, ok := events.Transition(r.Event); ok {
		j.circuit.change(scope, t, r.Time)
	}
}

func (j *Job) applyAgent(r events.Record) {
	switch e := r.Event.(type) {
	case events.AgentStarted:
		j.waiting.remove(e.ItemIndex)
		j.found(e.ItemIndex)
		j.atItems = true
		a := &Attempt{
			ItemID: e.ItemID, Index: e.ItemIndex, Number: e.Attempt, Worker: e.Worker,
			Fleet: e.Fleet, Began: r.Time,
		}
		j.running[e.ItemIndex], j.byID[e.ItemID] = a, a
		j.slots = max(j.slots, e.Worker)
	case events.AgentStraggling:
		j.Stragglers.Found++
		if a := j.running[e.ItemIndex]; a != nil && a.Number == e.Attempt {
			a.Straggling = true
		}
	case events.AgentPlaced:
		if a := j.running[e.ItemIndex]; a != nil && a.Number == e.Attempt {
			a.Node, a.Host, a.Slot = e.Node, e.Host, e.Slot
		}
	case events.AgentProgress:
		j.Step(e)
	}
	if end, ok := events.EndOf(r.Event); ok {
		j.ended(r, end)
	}
}

// ended takes the end of an attempt, or of an item without one.
func (j *Job) ended(r events.Record, end events.End) {
	if end.How == events.Superseded {
		return
	}
	if end.How == events.Reused {
		j.found(end.Index)
		j.Reused++
		j.speed.before++ // it says nothing of how fast items are done
		j.count(end.Index, errorpolicy.Succeeded)
		return
	}
	a := j.running[end.Index]
	j.stopped(end.Index)
	if end.How == events.Lost {
		j.Lost++
	}
	if end.How.GivenBack() {
		return
	}
	if a != nil { // it is not one that was rejected by the breaker
		if end.Node != "" { // one that ends soon is placed nowhere before
			a.Node, a.Host, a.Slot = end.Node, end.Host, end.Slot
		}
		a.Due, a.Duration, a.Type, a.Step = time.Time{}, end.Took, end.Type, cmp.Or(end.Step, a.Step)
		j.Durations.Add(end.Took)
		j.slow(*a)
	}
	if e, failed := r.Event.(events.AgentFailed); failed {
		j.failed(r.Time, e)
	} else if !end.Settles {
		j.merging[end.Index] = queued{id: end.ID, seq: r.Seq, since: r.Time}
	}
	if end.Settles {
		j.settle(r.Time, end.Index, end.Status())
	}
}

func (j *Job) started(e events.JobStarted) {
	j.resumed = false
	j.Workflow, j.Mode, j.Version, j.MaxParallel = e.Workflow, e.Mode, e.Version, e.MaxParallel
	j.Base, j.Head, j.Rates, j.Broker = e.Base, e.Base, e.Rates, e.Broker
	j.capped(e.MaxCostUSD)
	if e.TotalItems != nil {
		j.Total = *e.TotalItems
	}
}

// capped notes what a command line said that agents may cost.
func (j *Job) capped(u *limit.USD) {
	if u != nil {
		j.MaxCost = *u
	}
}

// resume begins another run: nothing is in flight any more except what is attached, and the rate is measured anew.
func (j *Job) resume(now time.Time, e events.JobResumed) {
	j.State, j.Reason, j.RunBegan = Running, "", now
	maps.DeleteFunc(j.held, func(name string, _ events.Record) bool { return name != events.ByRollout })
	j.Merges.Verifying, j.Merges.failed = nil, nil
	j.Letters = e.Reason == events.ForDeadLetters
	if j.resumed || e.Phase != "" && e.Phase != j.Phase {
		j.Phase, j.PhaseBegan, j.StepsDone = e.Phase, now, e.StepsDone
	}
	// Older logs have no phase.
	j.atItems = j.Letters || e.Phase == "map" || e.Phase == "" && e.Completed+e.Pending+e.InFlight > 0
	if !j.resumed || j.Runs > 1 {
		j.Runs++
	}
	for index := range j.running {
		if !e.IsAttached(index) { // it died with the run before
			j.stopped(index)
		}
	}
	for index := range j.waiting.due {
		// Its retry from the queue did not finish, and it is a dead letter as before.
		if j.status.At(index).DeadLetter() {
			j.waiting.remove(index)
		}
	}
	j.slots = 0
	n := e.Completed + e.Pending + e.InFlight
	j.Total = max(j.Total, n)
	j.Complete = j.Complete || j.resumed && n == j.known && n > 0
	j.speed = speed{before: j.Counts.Finished()}
}

func (j *Job) end(s State, reason string) {
	j.State, j.Reason = s, reason
	delete(j.held, events.ByPerson)
	delete(j.held, events.ByEnd)
	j.Merges.Verifying = nil
	j.halt()
}

func (j *Job) phaseStarted(now time.Time, name string) {
	j.Phase, j.PhaseBegan, j.StepsDone = name, now, 0
	j.atItems, j.StepNow, j.Printed = name == "map", "", ""
	j.Phases = append(j.Phases, Phase{Name: name, Began: now})
}

func (j *Job) phaseCompleted(e events.PhaseCompleted) {
	for i := len(j.Phases) - 1; i >= 0; i-- {
		if j.Phases[i].Name == e.Phase {
			j.Phases[i].Done, j.Phases[i].Duration = true, time.Duration(e.DurationMS)
			break
		}
	}
}

func (j *Job) failed(now time.Time, e events.AgentFailed) {
	if !e.Rejected() && !e.ErrorType.AfterAttempt() {
		j.circuit.failed(events.WorkflowScope, e.ErrorType, e.Error)
		j.circuit.failed(e.Step, e.ErrorType, e.Error)
	}
	if e.Action.RunsAgain() {
		j.retried(Retry{ItemID: e.ItemID, Step: e.Step, Type: e.ErrorType, Error: e.Error, Due: *e.RetryAt})
		j.waiting.add(e.ItemIndex, *e.RetryAt)
		j.waiting.ids[e.ItemIndex] = e.ItemID
		return
	}
	j.waiting.remove(e.ItemIndex) // it may have been skipped while it waited
	j.Failures.add(now, e)
	j.found(e.ItemIndex)
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

func (j *Job) retried(r Retry) {
	j.Retries++
	if j.Retried.Types == nil {
		j.Retried.Types = map[retry.Type]int{}
	}
	j.Retried.Types[r.Type]++
	j.Retried.Last = r
}

// Attempts returns the number of attempts that are over: they have ended by themselves, or were lost with
// their workers.
func (j *Job) Attempts() int { return j.Durations.N() + j.Lost }

// slowestKept is the number of slowest attempts that are kept.
const slowestKept = 5

func (j *Job) slow(a Attempt) {
	at := len(j.Slowest)
	for at > 0 && j.Slowest[at-1].Duration < a.Duration {
		at--
	}
	if at == slowestKept {
		return
	}
	j.Slowest = append(j.Slowest, Attempt{})
	copy(j.Slowest[at+1:], j.Slowest[at:])
	j.Slowest[at] = a
	j.Slowest = j.Slowest[:min(len(j.Slowest), slowestKept)]
}

// settle gives an item its end and takes back the one it had before. When the records from before were not
// shown, an item that is run again as a dead letter had failed.
func (j *Job) settle(now time.Time, index int, s errorpolicy.Status) {
	j.count(index, s)
	j.speed.add(now)
}

// count is settle for an item that took no time.
func (j *Job) count(index int, s errorpolicy.Status) {
	before := j.status.At(index)
	if before == errorpolicy.Pending && j.resumed && j.Letters {
		before = errorpolicy.Dead
	}
	j.status.Set(index, s)
	if count := j.Counts.of(before); count != nil && *count > 0 {
		*count--
	}
	if count := j.Counts.of(s); count != nil {
		*count++
	}
}

// of returns the count that an item with status s is in; nil means none.
func (c *Counts) of(s errorpolicy.Status) *int {
	switch s {
	case errorpolicy.Succeeded:
		return &c.Successful
	case errorpolicy.Dead:
		return &c.Failed
	case errorpolicy.Skipped:
		return &c.Skipped
	case errorpolicy.Rejected:
		return &c.Rejected
	}
	return nil
}

// found notes that there is an item with this index.
func (j *Job) found(index int) { j.Total = max(j.Total, index+1) }

// Step notes the step that an attempt has reached, as Apply does for logs that record steps.
func (j *Job) Step(e events.AgentProgress) { j.at(e.ItemID, e.Step, time.Time{}) }

// at notes the step that an item has reached, and when it is due if it waits.
func (j *Job) at(itemID, step string, due time.Time) {
	if a := j.byID[itemID]; a != nil {
		a.Step, a.Due = step, due
	}
}

// Output notes what a command has printed. Without it no attempt has Printed. What is of an attempt that is
// not known to run may have come before the record of its start.
func (j *Job) Output(e outputs.Entry) {
	switch line := lastLine(e); {
	case e.ItemID == "":
		j.StepNow = e.Step
		if line != "" {
			j.Printed = line
		}
	case e.End != nil:
		delete(j.printed, e.ItemID)
	case line != "":
		j.printed[e.ItemID] = line
		if len(j.printed) > printedKept {
			maps.DeleteFunc(j.printed, func(id, _ string) bool { return j.byID[id] == nil })
		}
	}
}

const (
	printedKept = 4096 // lines of attempts that may not run any more
	lineKept    = 400  // bytes of a line
)

// lastLine returns the last line of an entry that is not blank, without its end if it is long.
func lastLine(e outputs.Entry) string {
	for _, part := range slices.Backward(e.Printed) {
		for text := part.Text; len(text) > 0; {
			cut := bytes.LastIndexAny(text, "\r\n") // a bar of progress begins its line again and again
			if line := bytes.TrimSpace(text[cut+1:]); len(line) > 0 {
				return string(line[:min(len(line), lineKept)])
			}
			text = text[:max(cut, 0)]
		}
	}
	return ""
}

// stopped removes an item from the running ones.
func (j *Job) stopped(index int) {
	if a := j.running[index]; a != nil {
		delete(j.printed, a.ItemID)
		delete(j.byID, a.ItemID)
		delete(j.running, index)
	}
}

// halt removes all running items.
func (j *Job) halt() {
	clear(j.running)
	clear(j.byID)
	clear(j.printed)
}
