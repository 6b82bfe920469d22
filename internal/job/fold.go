// Package job has what is known of a job, which is a fold over its event log.
//
// Fold.Apply is the only function that changes what is known, live and on replay alike. An Opened is a job at work: it
// records events, and keeps up to date what follows from the log: dead letters and checkpoints. The other functions
// read a job, make its results, carry requests to the process that runs it (Serve, Ask), and examine all of its files
// (Examine).
package job

import (
	"fmt"
	"strings"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/limits"
	"prodigy/internal/retry"
)

// Fold is all that is known of a job: the fold of its log. Only the goroutine that owns the job touches it. It
// is also what a checkpoint has of the job, as JSON, so each field must survive that; a test holds foldVersion
// against the shape of it.
type Fold struct {
	Limits *limits.Memory        `json:"limits"` // without what the workflow says
	Policy *errorpolicy.Machine  `json:"policy"` // without what the workflow says
	Times  *limit.StragglerTimes `json:"times"`  // without their limit

	beginning
	runTimes
	Seq     int64 `json:"seq"`     // of the last record
	Outcome int64 `json:"outcome"` // of the last record that gave an item its row of the results

	Phases  map[string]*Phase `json:"phases"`
	Working string            `json:"working"` // the phase that its events are about
	reducing

	selected
	Status  errorpolicy.Statuses `json:"status"`  // by item index, as far as items have been seen
	Running map[int]Running      `json:"running"` // attempts that have started and not ended, by item index
	Waiting map[int]Waiting      `json:"waiting"` // items between two attempts, by item index
	// by item id; "" for the other phases: the last retry of a step that has not ended
	Retrying map[string]StepRetry `json:"retrying"`
	tries
	suspicions
	Circuits circuits `json:"circuits"`
	Alike    alike    `json:"alike,omitzero"` // whether all items fail with the same invalid request

	agentsUsed
	workspaceState
	requests

	// Fingerprint is what the items share that are run now. It is nil until the map phase has begun, and for
	// one that an older version began.
	Fingerprint *events.Fingerprint `json:"fingerprint,omitempty"`

	ended
}

// beginning is how the job began.
type beginning struct {
	Started  time.Time `json:"started"`
	Seed     uint64    `json:"seed"`
	Mode     string    `json:"mode"`
	Workflow string    `json:"workflow"`
	Broker   string    `json:"broker,omitempty"` // see events.JobStarted
}

// runTimes is how long the job has run.
type runTimes struct {
	Earlier  time.Duration `json:"earlier"` // that the runs before this one took
	RunBegan time.Time     `json:"run_began"`
	Last     time.Time     `json:"last"` // of the last record
}

// reducing is what is known of the phases after the map phase.
type reducing struct {
	Reducing bool `json:"reducing"` // they are to be run again

	// ReduceStale says that items have succeeded since reduce, or merge if there is no reduce, began. It is false once
	// that is to run again.
	ReduceStale bool `json:"reduce_stale"`
}

// selected is how many items there are.
type selected struct {
	Total    int  `json:"total"`    // of meaning once selected
	Selected bool `json:"selected"` // selection has ended
}

// tries is what the attempts at items have come to, by item index.
type tries struct {
	// the last failures of items that are not settled, and may be without running again
	Failed   map[int]failure `json:"failed,omitempty"`
	Failures map[int]int     `json:"failures"` // failures so far of items that wait or are dead-lettered
	LastTry  map[int]int     `json:"last_try"` // attempt number of dead letters, for their retry from the queue
}

// suspicions are what speaks for it that an item kills what runs it, by item index.
type suspicions struct {
	Crashes map[int]crashes `json:"crashes"` // of items that were in flight when a run died
	Losses  map[int]losses  `json:"losses"`  // of items whose workers were lost
}

// agentsUsed is what is known of the AI coding CLIs of the job.
type agentsUsed struct {
	// Quotas are the pools whose agents wait.
	Quotas map[string]events.QuotaPaused `json:"quotas,omitempty"`

	// Sessions are those that have not ended by themselves, by item id; "" for the other phases.
	Sessions map[string]Session `json:"sessions,omitempty"`

	Spent   limit.Account `json:"spent"`              // what they have used
	MaxCost *limit.USD    `json:"max_cost,omitempty"` // the budget of the job, if a command line set it
}

// Session is one of an AI coding CLI that has not ended by itself.
type Session struct {
	events.AISessionStarted

	Left bool `json:"left,omitempty"` // no agent works in it: that has told what it used
}

// workspaceState is what is known of a job with workspaces.
type workspaceState struct {
	Base         string          `json:"base,omitempty"`          // the commit that it began at
	TargetBranch string          `json:"target_branch,omitempty"` // the branch of then
	MapBase      string          `json:"map_base,omitempty"`      // the commit that the map phase began at
	Head         string          `json:"head,omitempty"`          // the commit with all that counts
	Checkout     []string        `json:"checkout,omitempty"`      // see events.JobStarted
	Merging      map[int]Merging `json:"merging"`                 // work that waits to be merged, by item index
	Merged       int             `json:"merged,omitempty"`        // items whose work was merged
}

// requests are what people have asked of the job and is still to be done.
type requests struct {
	Slots     int            `json:"slots,omitempty"`     // that somebody has given the job while it ran, or 0
	Skips     map[int]string `json:"skips,omitempty"`     // who asked to skip items that have no outcome yet, by index
	Cancelled string         `json:"cancelled,omitempty"` // who has cancelled the job; empty for nobody

	Ending events.Ending `json:"ending,omitzero"`
}

// ended is how the last run of the job ended.
type ended struct {
	Ended  jobs.State `json:"ended"` // empty while it runs, or when it was killed
	Reason string     `json:"reason"`
}

// Phase is what is known of one phase.
type Phase struct {
	Began     time.Duration          `json:"began"` // how long the job had run when it started
	Started   bool                   `json:"started"`
	Completed bool                   `json:"completed"`
	Duration  time.Duration          `json:"duration"`
	Steps     []events.StepCompleted `json:"steps,omitempty"` // done so far, of the phases that run once
}

// Running is an attempt at an item that has started and not ended.
type Running struct {
	events.AgentStarted

	Began time.Time `json:"began"`

	// Retry is what the item had used of its retry policy before this attempt.
	Retry retry.State `json:"retry"`

	// Resolve is the work whose conflict the attempt resolves.
	Resolve string `json:"resolve,omitempty"`

	// Token is the number of the record of its start.
	Token int64 `json:"token"`

	// Node is the worker of the fleet that runs it. It is empty until that has been heard of.
	Node string `json:"node,omitempty"`

	// Try is when the last try of a step began. Zero means that it began with the attempt.
	Try time.Time `json:"try,omitzero"`

	// Waited means that the attempt has waited for a try, so that how long it takes says nothing.
	Waited bool `json:"waited,omitempty"`

	// Doubled is the number of a second attempt at the item, which only logs of earlier versions have.
	Doubled int `json:"doubled,omitempty"`
}

// crashes is how often a run died, for no reason that is known, soon after an attempt at an item had begun.
type crashes struct {
	Together int `json:"together"` // while others may have run too
	Alone    int `json:"alone"`    // while nothing else ran
}

// losses is how often a worker was lost that had an attempt at an item.
type losses struct {
	Together int `json:"together"`      // it may have had others that are as suspicious
	Alone    int `json:"alone"`         // it had no other that is suspicious
	Cut      int `json:"cut,omitempty"` // it was only cut off, and well
}

// suspiciousTime is how soon after the beginning of an attempt the run must die for its item to be a suspect.
// An item that kills the run mostly does so at once.
const suspiciousTime = 10 * time.Second

// failure is the last failure of an item.
type failure struct {
	Step  string     `json:"step,omitempty"`
	Type  retry.Type `json:"type"`
	Error string     `json:"error"`
}

// Waiting is an item between two attempts.
type Waiting struct {
	// ID is that of the item, and Number that of the last attempt that counts.
	ID     string `json:"id"`
	Number int    `json:"number"`

	// Due is when the next attempt may start. Zero means at once.
	Due   time.Time   `json:"due"`
	Retry retry.State `json:"retry"`

	// Resolve is the work whose conflict the next attempt resolves.
	Resolve string `json:"resolve,omitempty"`
}

// Merging is the work of an item that has not been merged yet.
type Merging struct {
	events.AttemptID
	events.Changes

	Worker int `json:"worker"`

	// Seq is the number of its AgentCompleted, and Done the time of that.
	Seq  int64     `json:"seq"`
	Done time.Time `json:"done"`

	// Took is how long the attempt took.
	Took time.Duration `json:"took"`
	Base string        `json:"base"`

	// Retry is what the item had used of its retry policy before the attempt.
	Retry retry.State `json:"retry"`

	// Resolved means that the work resolves a conflict. It is not resolved again.
	Resolved bool `json:"resolved,omitempty"`
}

// StepRetry is a step between two tries.
type StepRetry struct {
	Event events.StepRetrying `json:"event"`
	Due   time.Time           `json:"due"`
}

func NewFold(p errorpolicy.Policy) *Fold {
	return &Fold{
		Limits:     limits.NewMemory(p),
		Policy:     errorpolicy.New(p),
		Times:      limit.NewStragglerTimes(p.Straggler),
		Phases:     map[string]*Phase{},
		Running:    map[int]Running{},
		Waiting:    map[int]Waiting{},
		Retrying:   map[string]StepRetry{},
		tries:      tries{Failed: map[int]failure{}, Failures: map[int]int{}, LastTry: map[int]int{}},
		suspicions: suspicions{Crashes: map[int]crashes{}, Losses: map[int]losses{}},
		Circuits:   circuits{},
		agentsUsed: agentsUsed{
			Quotas: map[string]events.QuotaPaused{}, Sessions: map[string]Session{},
		},
		requests:       requests{Skips: map[int]string{}},
		workspaceState: workspaceState{Merging: map[int]Merging{}},
	}
}

// Apply changes the fold by one record. It is the only function that does, live and on replay. It returns a
// full batch of collected errors, which is recorded; on replay it has been.
func (s *Fold) Apply(r events.Record) (batch []errorpolicy.BatchError) {
	if events.BetweenRuns(r.Event) {
		s.Seq = r.Seq // it does not tell how long a run took
		return nil
	}
	if _, resumed := r.Event.(events.JobResumed); resumed || s.RunBegan.IsZero() {
		s.Earlier, s.RunBegan = s.Duration(s.Last), r.Time
	}
	s.Seq, s.Last = r.Seq, r.Time
	s.Limits.Apply(r, s)
	s.Circuits.note(s.Working, r.Event)
	if end, ok := events.RunEndOf(r.Event); ok {
		s.Ended, s.Reason = end.State, end.Reason
	}
	if e, ok := events.EndingOf(r.Event); ok {
		s.Ending = e
	}
	switch e := r.Event.(type) {
	case events.JobStarted:
		s.Started, s.Seed, s.Mode, s.Workflow, s.Broker = r.Time, e.Seed, e.Mode, e.Workflow, e.Broker
		s.Base, s.Head, s.TargetBranch, s.Checkout, s.MaxCost = e.Base, e.Base, e.TargetBranch, e.Checkout, e.MaxCostUSD
	case events.JobResumed:
		s.resume(r.Time, e)
	case events.JobCompleted:
		s.Reducing, s.Cancelled = false, ""
		s.moveHead(e.Head)
	case events.CancelRequested:
		s.Cancelled = e.By
	case events.ScaleRequested:
		if !e.Fleet {
			s.Slots = e.MaxParallel
		}
	case events.SkipRequested:
		s.Skips[e.ItemIndex] = e.By
	case events.RetryNowRequested:
		s.retryNow(r.Time, e)
	case events.PhaseStarted:
		if e.Phase == "reduce" || e.Phase == "merge" && s.Phases["reduce"] == nil {
			s.ReduceStale = false
		}
		if e.Phase == "map" {
			s.MapBase, s.Fingerprint = s.Head, e.Fingerprint
		}
		s.Phases[e.Phase] = &Phase{Started: true, Began: s.Duration(r.Time)}
		s.Working = e.Phase
	case events.PhaseCompleted:
		p := s.Phase(e.Phase)
		p.Completed, p.Duration = true, time.Duration(e.DurationMS)
		s.moveHead(e.Head)
	case events.StepCompleted:
		p := s.Phase(e.Phase)
		p.Steps = append(p.Steps, e)
		delete(s.Retrying, "")
		delete(s.Sessions, "")
	case events.AISessionStarted:
		s.Sessions[e.ItemID] = Session{AISessionStarted: e}
	case events.StepRetrying:
		s.Retrying[e.ItemID] = StepRetry{Event: e, Due: r.Time.Add(time.Duration(e.DelayMS))}
		if s.Limits.Concurrency.Service.Limits() {
			s.change(e.ItemIndex, func(f *Running) { f.Waited = f.Waited || f.ItemID == e.ItemID })
		}
	case events.ErrorBatch:
		_ = s.Policy.Remainder()
	case events.FingerprintChanged:
		s.Fingerprint = &e.Fingerprint
	case events.ItemsSelected:
		s.Total, s.Selected = e.TotalItems, true
		s.Policy.SetTotal(e.TotalItems)
	case events.QuotaPaused:
		s.Quotas[e.Gate()] = e
	case events.QuotaResumed:
		delete(s.Quotas, e.Gate())
	case events.AgentUsage:
		s.Spent.Add(e.Index(), e.Step, e.Use())
		k, ok := s.Sessions[e.ItemID]
		switch {
		case !ok || k.Step != e.Step:
		case agent.LeavesSession(e):
			k.Left = true
			s.Sessions[e.ItemID] = k
		default:
			delete(s.Sessions, e.ItemID)
		}
	default:
		return s.applyAgent(r)
	}
	return nil
}

// Duration is how long the runs of the job have taken until now, without the time between them.
func (s *Fold) Duration(now time.Time) time.Duration {
	if s.RunBegan.IsZero() {
		return 0
	}
	return s.Earlier + max(0, now.Sub(s.RunBegan))
}

// retryNow makes due what waits.
func (s *Fold) retryNow(now time.Time, e events.RetryNowRequested) {
	for index, w := range s.Waiting {
		if w.Due.After(now) && e.Names(w.ID) {
			w.Due = now
			s.Waiting[index] = w
		}
	}
	for id, k := range s.Retrying {
		if k.Due.After(now) && e.Names(id) {
			k.Due = now
			s.Retrying[id] = k
		}
	}
}

// applyAgent is apply for what happens to items.
func (s *Fold) applyAgent(r events.Record) (batch []errorpolicy.BatchError) {
	switch e := r.Event.(type) {
	case events.AgentStarted:
		w := s.Waiting[e.ItemIndex]
		s.Running[e.ItemIndex] = Running{
			AgentStarted: e, Began: r.Time, Retry: w.Retry, Resolve: w.Resolve, Token: r.Seq,
		}
		delete(s.Waiting, e.ItemIndex)
	case events.AgentDuplicated: // no later version begins a second attempt, nor may its number be used again
		s.change(e.ItemIndex, func(f *Running) { f.Doubled = e.Attempt })
	case events.AgentCompleted:
		if _, retried := s.Retrying[e.ItemID]; !retried && !s.Running[e.ItemIndex].Waited {
			s.Times.Add(time.Duration(e.DurationMS))
		}
		if e.Commit != "" {
			s.awaitMerge(r, e)
			break
		}
		s.succeed(e.ItemID, e.ItemIndex, r.Seq)
	case events.AgentReused:
		s.succeed(e.ItemID, e.ItemIndex, r.Seq)
	case events.WorktreeMerged:
		for i, index := range e.ItemIndexes {
			s.succeed(e.ItemIDs[i], index, r.Seq)
		}
		s.Merged += len(e.ItemIndexes)
		s.moveHead(e.Head)
	case events.AgentFailed:
		if givesRow(e, s.Status.At(e.ItemIndex) != errorpolicy.Pending) {
			s.Outcome = r.Seq
		}
		return s.applyFailure(e)
	case events.AgentInterrupted:
		f := s.Running[e.ItemIndex]
		s.giveBack(e.ItemIndex, f, max(f.Attempt-1, f.Doubled))
	case events.AgentLost:
		s.lose(e)
	case events.AgentPlaced:
		s.change(e.ItemIndex, func(f *Running) {
			if f.Attempt == e.Attempt {
				f.Node = e.Node
			}
		})
	case events.StepTurn:
		if e.WaitedMS > 0 {
			s.change(e.ItemIndex, func(f *Running) { f.Waited = true })
		}
	case events.StepRetried:
		s.change(e.ItemIndex, func(f *Running) { f.Try = r.Time })
	}
	return nil
}

// change changes the attempt at an item that runs, if there is one.
func (s *Fold) change(index int, how func(*Running)) {
	if f, runs := s.Running[index]; runs {
		how(&f)
		s.Running[index] = f
	}
}

// lose gives an item whose worker was lost its next attempt. Unlike after a stop, a dead letter that is run
// again has one too. One that is not known to have begun is not counted against the item, and one whose worker
// was only cut off hardly is.
func (s *Fold) lose(e events.AgentLost) {
	index := e.ItemIndex
	f := s.Running[index]
	delete(s.Running, index)
	s.Waiting[index] = Waiting{ID: f.ItemID, Number: max(f.Attempt, f.Doubled), Retry: f.Retry, Resolve: f.Resolve}
	if e.Unbegun {
		return
	}
	l := s.Losses[index]
	switch {
	case e.Cut:
		l.Cut++
	case f.Suspect:
		l.Alone++
	default:
		l.Together++
	}
	s.Losses[index] = l
}

// succeed gives an item its success, by record seq.
func (s *Fold) succeed(id string, index int, seq int64) {
	s.Outcome = seq
	s.Alike.add("", "")
	for _, name := range []string{"reduce", "merge"} {
		if p := s.Phases[name]; p != nil && p.Started {
			s.ReduceStale = true
		}
	}
	s.Policy.ItemSucceeded(s.Status.At(index))
	s.settle(id, index, errorpolicy.Succeeded)
}

// awaitMerge keeps the work of an attempt that has ended. Until it is merged the item is what it was: pending,
// or a dead letter that is run again.
func (s *Fold) awaitMerge(r events.Record, e events.AgentCompleted) {
	f := s.Running[e.ItemIndex]
	s.Merging[e.ItemIndex] = Merging{
		AttemptID: e.AttemptID, Changes: e.Changes, Worker: e.Worker, Seq: r.Seq, Done: r.Time,
		Took: time.Duration(e.DurationMS), Base: f.Base, Retry: f.Retry, Resolved: f.Resolve != "",
	}
	delete(s.Running, e.ItemIndex)
	delete(s.Crashes, e.ItemIndex)
	delete(s.Retrying, e.ItemID)
}

// moveHead makes a commit the head of the job; an empty one leaves it.
func (s *Fold) moveHead(commit string) {
	if commit != "" {
		s.Head = commit
	}
}

// Unmerged is the number of items whose work waits to be merged; not of dead letters, which are settled.
func (s *Fold) Unmerged() int {
	return pendingOf(s, s.Merging)
}

// pendingOf returns how many of some items have no outcome.
func pendingOf[T any](s *Fold, items map[int]T) (n int) {
	for index := range items {
		if s.Status.At(index) == errorpolicy.Pending {
			n++
		}
	}
	return n
}

func (s *Fold) applyFailure(e events.AgentFailed) []errorpolicy.BatchError {
	index := e.ItemIndex
	number := max(e.Attempt, s.Running[index].Doubled)
	before, failures := s.Status.At(index), s.Failures[index]+1
	if e.Rejected() {
		s.Policy.Rejected(e.ItemID, before)
		s.settle(e.ItemID, index, errorpolicy.Rejected)
		s.LastTry[index], s.Failures[index] = number, failures
		return nil
	}

	if !e.Action.RunsAgain() {
		s.Alike.add(e.ErrorType, e.ErrorSignature)
	}
	batch := s.Policy.Failed(e.ItemID, e.Action, e.ErrorType, e.Error, before)
	if e.Action.RunsAgain() {
		delete(s.Running, index)
		delete(s.Merging, index)
		delete(s.Retrying, e.ItemID)
		s.Failures[index] = failures
		if e.Retry != nil && !e.Retry.ExpiresAt.IsZero() || s.Limits.Breaker.Refuses() {
			s.Failed[index] = failure{e.Step, e.ErrorType, e.Error}
		}
		next := Waiting{ID: e.ItemID, Number: number, Due: *e.RetryAt}
		if e.Retry != nil {
			next.Retry = *e.Retry
			next.Retry.Asked = 0 // it was about this wait alone
		}
		if e.Resolve {
			next.Resolve = e.Commit
		}
		s.Waiting[index] = next
		return batch
	}
	s.settle(e.ItemID, index, e.Status())
	if e.Status().DeadLetter() {
		s.LastTry[index], s.Failures[index] = number, failures
	}
	return batch
}

// RetryOf returns what an item that waits for its next attempt, or whose attempt runs, has used of its retries.
func (s *Fold) RetryOf(index int) retry.State {
	if w, waits := s.Waiting[index]; waits {
		return w.Retry
	}
	return s.Running[index].Retry
}

// resume is the beginning of a new run of the job: what was in flight and is not attached starts again as a new
// attempt. The thresholds count on, unless the policy had stopped the job or dead letters are retried. A dead
// letter whose retry was stopped is a dead letter as before, also one that waited for its next attempt.
func (s *Fold) resume(now time.Time, e events.JobResumed) {
	s.Ended, s.Reason, s.Cancelled, s.Ending, s.Broker = "", "", "", events.Ending{}, e.Broker
	if e.MaxCostUSD != nil {
		s.MaxCost = e.MaxCostUSD
	}
	if e.Checkout != nil {
		s.Checkout = e.Checkout
	}
	if e.Reduce && !s.Reducing {
		s.Reducing, s.ReduceStale = true, false
		delete(s.Phases, "reduce")
		delete(s.Phases, "merge")
	}
	if e.Died != nil && len(s.Running) == 0 {
		clear(s.Crashes) // runs die although no item is to blame
	}
	for index, f := range s.Running {
		if e.IsAttached(index) {
			continue
		}
		s.giveBack(index, f, max(f.Attempt, f.Doubled))
		if e.Died == nil || e.Died.Sub(f.Began) > suspiciousTime {
			continue
		}
		c := s.Crashes[index]
		if f.Alone {
			c.Alone++
		} else {
			c.Together++
		}
		s.Crashes[index] = c
	}
	for index, w := range s.Waiting {
		if s.Dead(index) {
			delete(s.Waiting, index)
			s.LastTry[index] = w.Number
			continue
		}
		w.Retry.Resumed = true
		if latest := now.Add(time.Duration(w.Retry.Previous)); w.Due.After(latest) {
			w.Due = latest // the clock has been set back
		}
		s.Waiting[index] = w
	}
	if !s.Alike.Over {
		s.Alike = alike{}
	}
	s.Policy.Resumed(e.Reason == events.ForDeadLetters)
	s.Working = s.Unfinished()
	if e.Reason == events.ForDeadLetters {
		s.Circuits, s.Working = circuits{}, "map"
	}
}

// Unfinished returns the phase that a resume continues, if one has begun. The phase of a standard workflow has no name.
func (s *Fold) Unfinished() string {
	for name := range strings.FieldsSeq("setup map reduce merge") {
		if p := s.Phases[name]; p != nil && p.Started && !p.Completed {
			return name
		}
	}
	return ""
}

// giveBack makes an item that was in flight ready to start again, with number as the last attempt that counts.
// A dead letter whose retry was stopped is a dead letter as before.
func (s *Fold) giveBack(index int, f Running, number int) {
	delete(s.Running, index)
	if s.Status.At(index) != errorpolicy.Pending {
		s.LastTry[index] = number
		return
	}
	s.Waiting[index] = Waiting{ID: f.ItemID, Number: number, Retry: f.Retry, Resolve: f.Resolve}
}

// alike is how many items in a row, from the first on, have failed because the service did not take what was
// asked of it, all with the same words.
type alike struct {
	Signature string `json:"signature,omitempty"`
	Items     int    `json:"items,omitempty"`
	Over      bool   `json:"over,omitempty"` // an item ended in another way
}

// enoughAlike is how many items are enough to know that the others will fail in the same way.
const enoughAlike = 3

// AllAlike returns why no other item will succeed, if all have failed alike so far and some are left.
func (s *Fold) AllAlike() (reason string, alike bool) {
	n := s.Alike.Items
	if n < enoughAlike || s.Total == n {
		return "", false
	}
	return fmt.Sprintf("the first %d items failed the same way, as all others would: %s", n, s.Alike.Signature), true
}

// add notes the end of an item.
func (a *alike) add(t retry.Type, signature string) {
	switch {
	case a.Over:
	case t != retry.TypeInvalidRequest || a.Items > 0 && signature != a.Signature:
		*a = alike{Over: true}
	default:
		a.Signature = signature
		a.Items++
	}
}

func (s *Fold) settle(id string, index int, st errorpolicy.Status) {
	s.Status.Set(index, st)
	delete(s.Spent.Items, index) // a dead letter that is run again begins anew
	delete(s.Merging, index)
	delete(s.Running, index)
	delete(s.Waiting, index)
	delete(s.LastTry, index)
	delete(s.Failures, index)
	delete(s.Failed, index)
	delete(s.Crashes, index)
	delete(s.Losses, index)
	delete(s.Skips, index)
	delete(s.Retrying, id)
	delete(s.Sessions, id)
}

func (s *Fold) Phase(name string) *Phase {
	if s.Phases[name] == nil {
		s.Phases[name] = &Phase{}
	}
	return s.Phases[name]
}

// NextNumber is the number of the item's next attempt.
func (s *Fold) NextNumber(index int) int {
	if w, ok := s.Waiting[index]; ok {
		return w.Number + 1
	}
	return s.LastTry[index] + 1
}

// InFlight is the number of items that are running, or were when the run ended; not of dead letters, which are settled.
func (s *Fold) InFlight() int {
	return pendingOf(s, s.Running)
}

// Delayed is the number of items that wait for the time of their next attempt.
func (s *Fold) Delayed() int {
	n := 0
	for index, w := range s.Waiting {
		if !w.Due.IsZero() && s.Status.At(index) == errorpolicy.Pending {
			n++
		}
	}
	return n
}

// Dead reports whether the item is a dead letter.
func (s *Fold) Dead(index int) bool {
	return s.Status.At(index).DeadLetter()
}

// Reprocessed counts, of dead letters and the number of their last attempt, how many have had another one to
// its end since, and how many of these are no dead letters any more.
func (s *Fold) Reprocessed(tried map[int]int) (ended, recovered int) {
	for index, number := range tried {
		switch {
		case !s.Dead(index):
			ended, recovered = ended+1, recovered+1
		case s.LastTry[index] != number:
			ended++
		}
	}
	return ended, recovered
}

// TakeUp adds to an attempt the last retry of a step that an earlier run has begun for the item, and the
// session of its AI coding CLI, if there is one.
func (s *Fold) TakeUp(a *agent.Attempt, itemID string) {
	if k, ok := s.Retrying[itemID]; ok {
		a.Retrying, a.Due = &k.Event, k.Due
	}
	if k, ok := s.Sessions[itemID]; ok && s.Base == "" { // a workspace begins anew: the work of the session is not there any more
		a.Session = &k.AISessionStarted
	}
}

// details returns how many items the state knows more of than how they ended. Eight that are but numbers take
// the room of one that is more.
func (s *Fold) details() int {
	numbers := len(s.Crashes) + len(s.Losses) + len(s.Failures) + len(s.LastTry)
	return len(s.Running) + len(s.Merging) + len(s.Waiting) + len(s.Skips) + len(s.Retrying) + len(s.Sessions) +
		len(s.Spent.Items) + s.Limits.Keys() + numbers/8
}

// circuits are the last transitions of the breakers of steps, by phase and scope: two phases may have steps of
// one label. The breaker of the workflow is not among them, because the policy has it.
type circuits map[string]map[string]limit.Transition

// note records an event of a phase, if it is a circuit event. The failures in a row are kept from the opening while tests run.
func (c circuits) note(phase string, e events.Event) {
	scope, t, ok := events.Transition(e)
	if !ok || scope == events.WorkflowScope {
		return
	}
	if c[phase] == nil {
		c[phase] = map[string]limit.Transition{}
	}
	if t.To == limit.HalfOpen {
		t.ConsecutiveFailures = c[phase][scope].ConsecutiveFailures
	}
	c[phase][scope] = t
}

// givesRow reports whether a failed attempt gives its item a new row of the results. One that is tried again
// does so only if the item was settled before: it is a dead letter being retried, and remains one until it
// succeeds.
func givesRow(e events.AgentFailed, settled bool) bool {
	return !e.Action.RunsAgain() || settled
}

// Item returns what is known of an item.
func (s *Fold) Item(index int) limits.Item {
	it := limits.Item{Failed: s.IsRetry(index), Settled: s.Status.At(index) != errorpolicy.Pending}
	if f, runs := s.Running[index]; runs {
		it.Key, it.Began, it.Waited = f.Key, f.Began, f.Waited
		if f.Try.After(f.Began) {
			it.Began = f.Try
		}
	}
	return it
}

// AtWork returns how many attempts at items have begun and not ended.
func (s *Fold) AtWork() int { return len(s.Running) }

// IsRetry reports whether the next attempt at an item follows a failure.
func (s *Fold) IsRetry(index int) bool { return s.Waiting[index].Retry.Attempts > 0 }
