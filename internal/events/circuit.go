package events

import "prodigy/internal/breaker"

// Circuit returns the event that tells of a breaker's transition. Scope is "workflow", or the label of a step.
func Circuit(scope string, t breaker.Transition) Event {
	switch t.To {
	case breaker.Open:
		return CircuitOpen{Scope: scope, ConsecutiveFailures: t.ConsecutiveFailures, Until: t.Until}
	case breaker.HalfOpen:
		return CircuitHalfOpen{Scope: scope}
	case breaker.Closed:
		return CircuitClosed{Scope: scope, Successes: t.Successes}
	}
	panic("BUG: a breaker went into a state that is none")
}
