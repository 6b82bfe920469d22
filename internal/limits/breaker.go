package limits

import (
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/limit"
	"prodigy/internal/retry"
)

// Breaker holds back or refuses items while too many attempts have failed, in all or for each key.
type Breaker struct {
	One     *limit.Breaker       `json:"one"`
	Keyed   *limit.KeyedBreaker  `json:"keyed"`             // in place of One, with a breaker for each key
	Tickets map[int]limit.Ticket `json:"tickets,omitempty"` // of attempts that run, by item index, but for zero ones
	Untold  []limit.Transition   `json:"untold,omitempty"`  // that the log does not say yet
	config  limit.BreakerConfig
}

func newBreaker(p errorpolicy.Policy) *Breaker {
	b := &Breaker{Tickets: map[int]limit.Ticket{}}
	if p.CircuitBreaker != nil {
		b.config = *p.CircuitBreaker
	}
	b.reset()
	return b
}

// reset closes the breaker, of all keys. No attempt may be in flight.
func (b *Breaker) reset() {
	b.One, b.Keyed = limit.NewBreaker(b.config), limit.NewKeyedBreaker(b.config)
}

// Refuses reports whether an item is refused while the breaker is open, and does not wait.
func (b *Breaker) Refuses() bool {
	return b.config.FailureThreshold > 0 && b.config.OnOpen != limit.Wait
}

// byKey reports whether each key has a breaker of its own.
func (b *Breaker) byKey() bool { return b.config.Per != "" }

// Admit implements Limit.
func (b *Breaker) Admit(a Ask) Verdict {
	if a.Class == Try {
		return Verdict{}
	}
	admission := b.One.Admit(a.Now)
	if b.byKey() {
		admission = b.Keyed.Admit(a.Key, a.Now)
	}
	switch {
	case admission.Verdict == limit.Run:
		return Verdict{}
	case admission.Verdict == limit.Full: // until one of the tests ends
		return Verdict{Answer: Wait}
	case b.config.OnOpen == limit.Wait:
		return Verdict{Answer: Wait, Until: admission.Until}
	}
	return Verdict{Answer: Refuse}
}

// Tell implements Teller.
func (b *Breaker) Tell() events.Event {
	if len(b.Untold) == 0 {
		return nil
	}
	return events.Circuit(events.WorkflowScope, b.Untold[0])
}

// Apply implements Limit.
func (b *Breaker) Apply(r events.Record, _ Job) {
	switch e := r.Event.(type) {
	case events.AgentStarted:
		b.start(e.ItemIndex, e.BreakerKey)
	case events.AgentCompleted:
		b.end(e.ItemIndex, true, r.Time)
	case events.AgentFailed:
		switch {
		case e.Rejected():
		case e.ErrorType == retry.TypeSkipped:
			b.release(e.ItemIndex)
		case e.ErrorType.AfterAttempt(): // it says nothing of what the breaker protects
			delete(b.Tickets, e.ItemIndex)
		default:
			b.end(e.ItemIndex, false, r.Time)
		}
	case events.AgentInterrupted:
		b.release(e.ItemIndex)
	case events.AgentLost:
		b.release(e.ItemIndex)
	case events.JobResumed:
		b.resumed(e)
	default:
		if scope, _, ok := events.Transition(r.Event); ok && scope == events.WorkflowScope {
			b.Untold = b.Untold[min(1, len(b.Untold)):]
		}
	}
}

func (b *Breaker) start(index int, key string) {
	var t limit.Ticket
	var changes []limit.Transition
	if b.byKey() {
		t, changes = b.Keyed.Start(key)
	} else {
		t, changes = b.One.Start()
	}
	if t != (limit.Ticket{}) {
		b.Tickets[index] = t
	}
	b.Untold = append(b.Untold, changes...)
}

// end gives the attempt at an item its outcome.
func (b *Breaker) end(index int, success bool, now time.Time) {
	t := b.Tickets[index]
	delete(b.Tickets, index)
	end := b.One.End
	if b.byKey() {
		end = b.Keyed.End
	}
	b.Untold = append(b.Untold, end(t, success, now)...)
}

// release takes note that the attempt at an item was stopped. A half-open breaker waits for the outcomes of its tests.
func (b *Breaker) release(index int) {
	t := b.Tickets[index]
	delete(b.Tickets, index)
	if b.byKey() {
		b.Keyed.Release(t)
		return
	}
	b.One.Release(t)
}

// resumed takes note that the job goes on. What its attempts would have tested is not known, but of those that
// are still attached. A retry of dead letters means that their cause is fixed.
func (b *Breaker) resumed(e events.JobResumed) {
	for index := range b.Tickets {
		if !e.IsAttached(index) {
			b.release(index)
		}
	}
	b.Untold = nil // the end of the run before has cut them off
	if e.Reason == events.ForDeadLetters {
		b.reset()
	}
}
