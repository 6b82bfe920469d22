package mapreduce

import (
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/breaker"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/retry"
)

// state is all that is known of a job: the fold of its log. Only the goroutine that runs the job touches it.
type state struct {
	policy   *errorpolicy.Machine
	started  time.Time
	seq      int64         // of the last record
	outcome  int64         // of the last record that gave an item its row of the results
	earlier  time.Duration // that the runs before this one took
	runBegan time.Time     // this run
	last     time.Time     // of the last record
	seed     uint64
	mode     string
	workflow string

	phases   map[string]*phase
	working  string               // the phase that its events are about
	status   errorpolicy.Statuses // by item index, as far as items have been seen
	flights  map[int]flight       // agents that have started and not ended, by item index
	waiting  map[int]tries        // items between two attempts, by item index
	retrying map[string]stepRetry // the last retry of a step by item id, of what has not ended; "" for the other phases
	crashes  map[int]int          // how often an item was in flight when a run died
	failures map[int]int          // failures so far of items that wait or are dead-lettered
	lastTry  map[int]int          // attempt number of items that are dead-lettered, for their retry from the queue
	circuits circuits
	total    int  // number of items; of meaning once selected
	selected bool // selection has ended
	reducing bool // the phases after the map phase are to be run again

	ended  State // how the last run of the job ended; empty while it runs, or when it was killed
	reason string
}

// phase is what is known of one phase.
type phase struct {
	began     time.Duration // how long the job had run when it started
	started   bool
	completed bool
	duration  time.Duration
	steps     []events.StepCompleted // done so far, of the phases that run once
}

// flight is a running agent.
type flight struct {
	id     string // of the item
	number int    // of the attempt
	ticket breaker.Ticket
	tries  retry.State // before this attempt
}

// tries is an item between two attempts.
type tries struct {
	id     string    // of the item
	number int       // of the last attempt that counts
	due    time.Time // not before
	state  retry.State
}

func newState(p errorpolicy.Policy) *state {
	return &state{
		policy:   errorpolicy.New(p),
		phases:   map[string]*phase{},
		flights:  map[int]flight{},
		waiting:  map[int]tries{},
		crashes:  map[int]int{},
		failures: map[int]int{},
		lastTry:  map[int]int{},
		retrying: map[string]stepRetry{},
		circuits: circuits{},
	}
}

// apply changes the state by one record. It is the only function that does, live and on replay. What it returns is to be told;
// on replay it has been told already.
func (s *state) apply(r events.Record) errorpolicy.Effects {
	if events.BetweenRuns(r.Event) {
		s.seq = r.Seq // it does not tell how long a run took
		return errorpolicy.Effects{}
	}
	if _, resumed := r.Event.(events.JobResumed); resumed || s.runBegan.IsZero() {
		s.earlier, s.runBegan = s.duration(s.last), r.Time
	}
	s.seq, s.last = r.Seq, r.Time
	switch e := r.Event.(type) {
	case events.JobStarted:
		s.started, s.seed, s.mode, s.workflow = r.Time, e.Seed, e.Mode, e.Workflow
	case events.JobResumed:
		s.resume(r.Time, e)
	case events.JobCompleted:
		s.ended, s.reason, s.reducing = Completed, e.Reason, false
	case events.JobFailed:
		s.ended, s.reason = Failed, e.Reason
	case events.JobPaused:
		s.ended, s.reason = Paused, e.Reason
	case events.PhaseStarted:
		s.phases[e.Phase] = &phase{started: true, began: s.duration(r.Time)}
		s.working = e.Phase
	case events.PhaseCompleted:
		p := s.phase(e.Phase)
		p.completed, p.duration = true, time.Duration(e.DurationMS)
	case events.StepCompleted:
		p := s.phase(e.Phase)
		p.steps = append(p.steps, e)
		delete(s.retrying, "")
	case events.StepRetrying:
		s.retrying[e.ItemID] = stepRetry{StepRetrying: e, due: r.Time.Add(time.Duration(e.DelayMS))}
	case events.ErrorBatch:
		_ = s.policy.Remainder()
	case events.ItemsSelected:
		s.total, s.selected = e.TotalItems, true
		s.policy.SetTotal(e.TotalItems)
	case events.CircuitOpen, events.CircuitHalfOpen, events.CircuitClosed:
		s.circuits.note(s.working, e)
	default:
		return s.applyAgent(r)
	}
	return errorpolicy.Effects{}
}

// duration is how long the runs of the job have taken until now, without the time between them.
func (s *state) duration(now time.Time) time.Duration {
	if s.runBegan.IsZero() {
		return 0
	}
	return s.earlier + max(0, now.Sub(s.runBegan))
}

// applyAgent is apply for what happens to items.
func (s *state) applyAgent(r events.Record) errorpolicy.Effects {
	switch e := r.Event.(type) {
	case events.AgentStarted:
		ticket, effects := s.policy.Started(r.Time)
		s.flights[e.ItemIndex] = flight{id: e.ItemID, number: e.Attempt, ticket: ticket, tries: s.waiting[e.ItemIndex].state}
		delete(s.waiting, e.ItemIndex)
		return effects
	case events.AgentCompleted:
		s.outcome = r.Seq
		effects := s.policy.Succeeded(e.ItemID, s.flights[e.ItemIndex].ticket, s.status.At(e.ItemIndex), r.Time)
		s.settle(e.ItemID, e.ItemIndex, errorpolicy.Succeeded)
		return effects
	case events.AgentFailed:
		if givesRow(e, s.status.At(e.ItemIndex) != errorpolicy.Pending) {
			s.outcome = r.Seq
		}
		return s.applyFailure(r.Time, e)
	case events.AgentInterrupted:
		f := s.flights[e.ItemIndex]
		s.policy.Released(f.ticket)
		s.giveBack(e.ItemIndex, f, f.number-1)
	}
	return errorpolicy.Effects{}
}

func (s *state) applyFailure(now time.Time, e events.AgentFailed) errorpolicy.Effects {
	before, failures := s.status.At(e.ItemIndex), s.failures[e.ItemIndex]+1
	if e.Rejected() {
		s.policy.Rejected(e.ItemID, before)
		s.settle(e.ItemID, e.ItemIndex, errorpolicy.Rejected)
		s.lastTry[e.ItemIndex], s.failures[e.ItemIndex] = e.Attempt, failures
		return errorpolicy.Effects{}
	}
	effects := s.policy.Failed(e.ItemID, s.flights[e.ItemIndex].ticket, e.Action, e.ErrorType, e.Error, before, now)
	if e.Action.RunsAgain() {
		delete(s.flights, e.ItemIndex)
		delete(s.retrying, e.ItemID)
		s.failures[e.ItemIndex] = failures
		s.waiting[e.ItemIndex] = tries{id: e.ItemID, number: e.Attempt, due: *e.RetryAt, state: retryState(e)}
		return effects
	}
	s.settle(e.ItemID, e.ItemIndex, e.Status())
	if e.Status().DeadLetter() {
		s.lastTry[e.ItemIndex], s.failures[e.ItemIndex] = e.Attempt, failures
	}
	return effects
}

// retryState reads back what addRetry wrote.
func retryState(e events.AgentFailed) retry.State {
	if e.Retry == nil {
		return retry.State{}
	}
	st := retry.State{Attempts: e.Retry.Attempts, Waited: time.Duration(e.Retry.WaitedMS), Previous: time.Duration(e.Retry.PreviousMS)}
	if e.Retry.ExpiresAt != nil {
		st.ExpiresAt = *e.Retry.ExpiresAt
	}
	return st
}

// resume is the beginning of a new run of the job: what was in flight and is not attached starts again as a new attempt, thresholds
// count anew. A dead
// letter whose retry was stopped is a dead letter as before, also one that waited for its next attempt.
func (s *state) resume(now time.Time, e events.JobResumed) {
	s.ended, s.reason = "", ""
	if e.Reduce && !s.reducing {
		s.reducing = true
		delete(s.phases, "reduce")
		delete(s.phases, "merge")
	}
	for index, f := range s.flights {
		if e.IsAttached(index) {
			continue
		}
		s.policy.Released(f.ticket)
		s.giveBack(index, f, f.number)
		s.crashes[index]++
	}
	for index, w := range s.waiting {
		if s.dead(index) {
			delete(s.waiting, index)
			s.lastTry[index] = w.number
			continue
		}
		w.state.Resumed = true
		if latest := now.Add(w.state.Previous); w.due.After(latest) {
			w.due = latest // the clock has been set back
		}
		s.waiting[index] = w
	}
	s.policy.Resumed(now)
	s.working = s.unfinished()
	if e.Reason == events.ForDeadLetters {
		s.policy.ResetBreaker()
		s.circuits, s.working = circuits{}, "map"
	}
}

// unfinished returns the phase that a resume goes on with, as far as one has begun. A standard workflow has one without a name.
func (s *state) unfinished() string {
	for _, name := range []string{"setup", "map", "reduce", "merge"} {
		if p := s.phases[name]; p != nil && p.started && !p.completed {
			return name
		}
	}
	return ""
}

// giveBack makes an item that was in flight ready to start again, with number as the last attempt that counts. A dead letter
// whose retry was stopped is a dead letter as before.
func (s *state) giveBack(index int, f flight, number int) {
	delete(s.flights, index)
	if s.status.At(index) != errorpolicy.Pending {
		s.lastTry[index] = number
		return
	}
	s.waiting[index] = tries{id: f.id, number: number, state: f.tries}
}

func (s *state) settle(id string, index int, st errorpolicy.Status) {
	s.status.Set(index, st)
	delete(s.flights, index)
	delete(s.waiting, index)
	delete(s.lastTry, index)
	delete(s.failures, index)
	delete(s.crashes, index)
	delete(s.retrying, id)
}

func (s *state) phase(name string) *phase {
	if s.phases[name] == nil {
		s.phases[name] = &phase{}
	}
	return s.phases[name]
}

// nextNumber is the number of the item's next attempt.
func (s *state) nextNumber(index int) int {
	if w, ok := s.waiting[index]; ok {
		return w.number + 1
	}
	return s.lastTry[index] + 1
}

// inFlight is the number of items that are running, or were when the run ended; not of dead letters, which are settled.
func (s *state) inFlight() int {
	n := 0
	for index := range s.flights {
		if s.status.At(index) == errorpolicy.Pending {
			n++
		}
	}
	return n
}

// delayed is the number of items that wait for the time of their next attempt.
func (s *state) delayed() int {
	n := 0
	for index, w := range s.waiting {
		if !w.due.IsZero() && s.status.At(index) == errorpolicy.Pending {
			n++
		}
	}
	return n
}

// dead reports whether the item is a dead letter.
func (s *state) dead(index int) bool {
	return s.status.At(index).DeadLetter()
}

// reprocessed counts, of dead letters and the number of their last attempt, how many have had another one to its end since, and
// how many of these are no dead letters any more.
func (s *state) reprocessed(tried map[int]int) (ended, recovered int) {
	for index, number := range tried {
		switch {
		case !s.dead(index):
			ended, recovered = ended+1, recovered+1
		case s.lastTry[index] != number:
			ended++
		}
	}
	return ended, recovered
}

// stepRetry is a step between two tries.
type stepRetry struct {
	events.StepRetrying
	due time.Time
}

// retried tells an attempt of the last retry of a step that a run which ended had begun for the item, if there is one.
func (s *state) retried(a *agent.Attempt, itemID string) {
	if k, ok := s.retrying[itemID]; ok {
		a.Retrying, a.Due = &k.StepRetrying, k.due
	}
}
