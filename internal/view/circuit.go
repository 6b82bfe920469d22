package view

import (
	"slices"
	"strings"
	"time"

	"prodigy/internal/events"
)

// BreakerState is the state of a circuit breaker.
type BreakerState string

const (
	Closed   BreakerState = "closed"
	Open     BreakerState = "open"
	HalfOpen BreakerState = "half_open"
)

// Breaker is the state of a circuit breaker that has opened at least once.
type Breaker struct {
	Scope    string // "workflow", or the label of a step
	State    BreakerState
	Since    time.Time
	Until    time.Time // with Open: when it begins to test
	Failures int       // with Open: in a row, that opened it
	Opened   int       // how often
}

// Period is a period in which a breaker was not closed.
type Period struct {
	Scope    string
	State    BreakerState
	From, To time.Time // To is zero while it lasts
}

// periodsKept bounds the periods of a breaker that flaps.
const periodsKept = 1000

// circuit are the breakers of a job that have ever opened.
type circuit struct {
	breakers map[string]*Breaker
	periods  []Period
}

func newCircuit() circuit { return circuit{breakers: map[string]*Breaker{}} }

// Breakers returns the breakers that are not closed, by scope.
func (j *Job) Breakers() []Breaker {
	var list []Breaker
	for _, b := range j.circuit.breakers {
		if b.State != Closed {
			list = append(list, *b)
		}
	}
	slices.SortFunc(list, func(a, b Breaker) int { return strings.Compare(a.Scope, b.Scope) })
	return list
}

// Periods returns the periods in which breakers were not closed, in the order of their beginning.
func (j *Job) Periods() []Period { return j.circuit.periods }

func (c *circuit) open(e events.CircuitOpen, now time.Time) {
	b := c.change(e.Scope, Open, now)
	b.Until, b.Failures = e.Until, e.ConsecutiveFailures
	b.Opened++
}

func (c *circuit) change(scope string, s BreakerState, now time.Time) *Breaker {
	b := c.breakers[scope]
	if b == nil {
		b = &Breaker{Scope: scope}
		c.breakers[scope] = b
	}
	b.State, b.Since, b.Until = s, now, time.Time{}
	for i := len(c.periods) - 1; i >= 0; i-- {
		if p := &c.periods[i]; p.Scope == scope {
			if p.To.IsZero() {
				p.To = now
			}
			break
		}
	}
	if s != Closed && len(c.periods) < periodsKept {
		c.periods = append(c.periods, Period{Scope: scope, State: s, From: now})
	}
	return b
}
