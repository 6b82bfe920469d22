package limits

import (
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/limit"
	"prodigy/internal/retry"
)

// Breaker holds back or refuses items while too many attempts have failed, in all or for each key. Where there is one
// for all items, its key is empty.
type Breaker struct {
	Keyed   *limit.KeyedBreaker  `json:"keyed"`
	Tickets map[int]limit.Ticket `json:"tickets,omitempty"` // of attempts that run, by item index
	Untold  []limit.Transition   `json:"untold,omitempty"`  // that the log does not say yet
	config  limit.BreakerConfig
}

func newBreaker(p errorpolicy.Policy) *Breaker {
	b := &Breaker{Tickets: map[int]limit.Ticket{}}
	if p.CircuitBreaker != nil {
		b.config = *p.CircuitBreaker
	}
	b.Keyed = limit.NewKeyedBreaker(b.config)
	return b
}

// exists reports whether the workflow asks for a breaker.
func (b *Breaker) exists() bool { return b.config.FailureThreshold > 0 }

// Refuses reports whether an item is refused while the breaker is open, and does not wait.
func (b *Breaker) Refuses() bool { return b.exists() && b.config.OnOpen != limit.Wait }

// Admit implements Limit.
func (b *Breaker) Admit(a Ask) Verdict {
	admission := b.Keyed.Admit(a.Key, a.Now)
	switch {
	case a.Class == Try || admission.Verdict == limit.Run:
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
	if !b.exists() {
		return
	}
	switch e := r.Event.(type) {
	case events.AgentStarted:
		t, changes := b.Keyed.Start(e.BreakerKey)
		b.Tickets[e.ItemIndex] = t
		b.Untold = append(b.Untold, changes...)
	case events.AgentCompleted:
		b.end(e.ItemIndex, true, r.Time)
	case events.AgentFailed:
		switch {
		case e.Rejected():
		case e.ErrorType == retry.TypeSkipped, e.ErrorType.AfterAttempt(): // it says nothing of what the breaker protects
			b.release(e.ItemIndex)
		default:
			b.end(e.ItemIndex, false, r.Time)
		}
	case events.AgentInterrupted:
		b.release(e.ItemIndex)
	case events.AgentLost:
		b.release(e.ItemIndex)
	case events.JobResumed:
		b.resumed(r.Time, e)
	default:
		if scope, _, ok := events.Transition(r.Event); ok && scope == events.WorkflowScope {
			b.Untold = b.Untold[min(1, len(b.Untold)):]
		}
	}
}

// end gives the attempt at an item its outcome. One that has no ticket has begun before there was a breaker.
func (b *Breaker) end(index int, success bool, now time.Time) {
	t, ok := b.Tickets[index]
	delete(b.Tickets, index)
	if ok {
		b.Untold = append(b.Untold, b.Keyed.End(t, success, now)...)
	}
}

// release takes note that the attempt at an item was stopped. A half-open breaker waits for the outcomes of its tests.
func (b *Breaker) release(index int) {
	t, ok := b.Tickets[index]
	delete(b.Tickets, index)
	if ok {
		b.Keyed.Release(t)
	}
}

// resumed takes note that the job goes on. What its attempts would have tested is not known, but of those that
// are still attached. A retry of dead letters means that their cause is fixed.
func (b *Breaker) resumed(now time.Time, e events.JobResumed) {
	for index := range b.Tickets {
		if !e.IsAttached(index) {
			b.release(index)
		}
	}
	b.Untold = nil // the end of the run before has cut them off
	b.Keyed.Resumed(now)
	if e.Reason == events.ForDeadLetters {
		b.Keyed = limit.NewKeyedBreaker(b.config)
	}
}
