package view

import (
	"time"

	"prodigy/internal/events"
	"prodigy/internal/limit"
)

// BreakerState is the state of a circuit breaker.
type BreakerState string

const (
	Closed   BreakerState = "closed"
	Open     BreakerState = "open"
	HalfOpen BreakerState = "half_open"
)

// Breaker is the state of a circuit breaker that has opened at least once. JSON has it as
// status shows it.
type Breaker struct {
	// events.WorkflowScope, or the label of a step.
	Scope string `json:"scope"`

	// The key that the breaker is of, where each key has one of its own.
	Key string `json:"key,omitempty"`

	State BreakerState `json:"state"`
	Since time.Time    `json:"since"`

	// When an open breaker begins to probe.
	Until time.Time `json:"until,omitzero"`

	// How many failures in a row have opened it. It is kept while the breaker is half-open.
	Failures int `json:"-"`

	// How often it has opened.
	Opened int `json:"-"`
}

// breakerID names a breaker.
type breakerID struct{ scope, key string }

// keysShown bounds the keys whose open breakers are known here.
const keysShown = 1 << 16

var breakerStates = map[limit.BreakerState]BreakerState{
	limit.Closed: Closed, limit.Open: Open,
	limit.HalfOpen: HalfOpen,
}

// change takes a transition of a breaker. One of a key that closes is forgotten, since a job
// may have very many keys.
func (j *Job) change(r events.Record, scope string, t limit.Transition) {
	id, s := breakerID{scope, t.Key}, breakerStates[t.To]
	b := j.breakers[id]
	if b == nil {
		b = &Breaker{Scope: scope, Key: t.Key}
		if len(j.breakers) < keysShown {
			j.breakers[id] = b
		}
	}
	if s == Closed && t.Key != "" {
		delete(j.breakers, id)
	}
	b.State, b.Since, b.Until = s, r.Time, t.Until
	name := scope + "\x00" + t.Key
	j.BreakerPeriods.end(name, r.Time)
	if s != Closed {
		j.BreakerPeriods.begin(name, r)
	}
	if s == Open {
		b.Failures = t.ConsecutiveFailures
		b.Opened++
		j.Openings[scope]++
	}
}
