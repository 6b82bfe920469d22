package events

import "prodigy/internal/breaker"

// Circuit returns the event for a transition of a breaker. Scope is "workflow", or the label of a step.
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

// Transition is the inverse of Circuit. It reports false for other events.
func Transition(e Event) (scope string, t breaker.Transition, ok bool) {
	switch e := e.(type) {
	case CircuitOpen:
		return e.Scope, breaker.Transition{To: breaker.Open, ConsecutiveFailures: e.ConsecutiveFailures, Until: e.Until}, true
	case CircuitHalfOpen:
		return e.Scope, breaker.Transition{To: breaker.HalfOpen}, true
	case CircuitClosed:
		return e.Scope, breaker.Transition{To: breaker.Closed, Successes: e.Successes}, true
	}
	return "", breaker.Transition{}, false
}
