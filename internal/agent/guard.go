package agent

import (
	"fmt"
	"sync"
	"time"

	"prodigy/internal/breaker"
	"prodigy/internal/events"
)

// guard is the circuit breaker of one step, which all agents share.
type guard struct {
	scope string

	mu      sync.Mutex
	breaker *breaker.Breaker
}

// newGuard returns the guard of a step whose breaker goes on behind its last transition; the zero one is that of a new breaker.
func newGuard(scope string, c breaker.Config, last breaker.Transition, now time.Time) *guard {
	b := breaker.Continue(c, last)
	b.Resumed(now)
	return &guard{scope: scope, breaker: b}
}

// admit asks for a start. A refusal says why. The transitions are told while the breaker is held, so that the log has them in order.
func (g *guard) admit(now time.Time, tell func(events.Event)) (t breaker.Ticket, refusal string) {
	if g == nil {
		return breaker.Ticket{}, ""
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if refusal := g.refusal(now); refusal != "" {
		return breaker.Ticket{}, refusal
	}
	t, transitions := g.breaker.Start(now)
	g.tell(transitions, tell)
	return t, ""
}

// shut returns why a start at that time would be refused whatever happens until then, or nothing.
func (g *guard) shut(at time.Time) (refusal string) {
	if g == nil {
		return ""
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.breaker.Admit(at).Verdict != breaker.Shut {
		return ""
	}
	return g.refusal(at)
}

func (g *guard) refusal(at time.Time) string {
	switch g.breaker.Admit(at).Verdict {
	case breaker.Shut:
		return fmt.Sprintf("the circuit breaker of %s is open", g.scope)
	case breaker.Full:
		return fmt.Sprintf("the circuit breaker of %s is half-open and has all its tests running", g.scope)
	case breaker.Run:
	}
	return ""
}

// report gives the outcome of a start.
func (g *guard) report(t breaker.Ticket, success bool, now time.Time, tell func(events.Event)) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if success {
		g.tell(g.breaker.Success(t, now), tell)
		return
	}
	g.tell(g.breaker.Failure(t, now), tell)
}

// release gives a start back that was stopped.
func (g *guard) release(t breaker.Ticket) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.breaker.Release(t)
}

func (g *guard) tell(transitions []breaker.Transition, tell func(events.Event)) {
	for _, t := range transitions {
		tell(events.Circuit(g.scope, t))
	}
}
