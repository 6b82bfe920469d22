package limits

import (
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/limit"
)

// Memory has the limits that remember something of a job: all that a checkpoint has of them.
type Memory struct {
	Pause       Pause        `json:"pause"`
	Rollout     Rollout      `json:"rollout"`
	Ratio       *Ratio       `json:"ratio"`
	Breaker     *Breaker     `json:"breaker"`
	Concurrency *Concurrency `json:"concurrency"`
	Rate        *Rate        `json:"rate"`
	Steps       StepRates    `json:"steps,omitempty"`
}

// NewMemory returns the limits of a new job.
func NewMemory(p errorpolicy.Policy) *Memory {
	return &Memory{
		Ratio: newRatio(p), Breaker: newBreaker(p), Concurrency: &Concurrency{Service: limit.NewAdaptive(p.Adapt)},
		Rate: &Rate{*limit.NewRateLimiter(p.Rate)}, Steps: newStepRates(p),
	}
}

// learner is what remembers something of a job.
type learner interface {
	Apply(r events.Record, was Job)
}

// all returns the fields, in their order.
func (m *Memory) all() [7]learner {
	return [...]learner{&m.Pause, &m.Rollout, m.Ratio, m.Breaker, m.Concurrency, m.Rate, m.Steps}
}

// Apply takes note of a record.
func (m *Memory) Apply(r events.Record, was Job) {
	for _, l := range m.all() {
		l.Apply(r, was)
	}
}

// Keys returns for how many keys something is remembered.
func (m *Memory) Keys() int { return m.Breaker.Keyed.Len() + m.Rate.Keys() + m.Steps.keys() }

// TakesTurns reports whether the next try of a step has to wait for a turn.
func (m *Memory) TakesTurns() bool {
	return m.Rate.Limits() || m.Concurrency.Service.Limits() || m.Ratio.Throttle.Limits()
}
