package agent

import (
	"fmt"
	"sync"
	"time"

	"prodigy/internal/breaker"
	"prodigy/internal/events"
)

// StepBreaker names the circuit breaker of one step, which all attempts at the step share, and says how it is configured.
type StepBreaker struct {
	JobID  string         `json:"job_id"`
	Phase  string         `json:"phase"`
	Step   string         `json:"step"`          // label of the step; also the scope of the events of the breaker
	Nth    int            `json:"nth,omitempty"` // how many steps before it in the phase have the same label and a breaker
	Config breaker.Config `json:"config"`
}

// StepBreakers are the circuit breakers of steps. They belong to the coordinator of a job: wherever the attempts run, each step has
// one breaker. The zero value has none yet; they are made as they are asked for. It is safe for concurrent use.
type StepBreakers struct {
	mu   sync.Mutex
	made map[stepBreakerKey]*stepBreaker
	last map[string]map[string]breaker.Transition // see Continue
}

type stepBreakerKey struct {
	job, phase, step string
	nth              int
}

// stepBreaker is the breaker of one step. Its lock is held while transitions are emitted, so that the log has them in order.
type stepBreaker struct {
	scope string

	mu      sync.Mutex
	breaker *breaker.Breaker
}

// Continue gives the last transitions of the breakers of a phase by the labels of their steps, as an earlier run left them. It has no
// effect on breakers that have been asked for, and only the first call for a phase has one.
func (s *StepBreakers) Continue(phase string, last map[string]breaker.Transition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = make(map[string]map[string]breaker.Transition)
	}
	if _, known := s.last[phase]; !known {
		s.last[phase] = last
	}
}

func (s *StepBreakers) of(b StepBreaker, now time.Time) *stepBreaker {
	key := stepBreakerKey{job: b.JobID, phase: b.Phase, step: b.Step, nth: b.Nth}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.made[key]; known != nil {
		return known
	}
	if s.made == nil {
		s.made = make(map[stepBreakerKey]*stepBreaker)
	}
	one := &stepBreaker{scope: b.Step, breaker: breaker.Continue(b.Config, s.last[b.Phase][b.Step])}
	one.breaker.Resumed(now)
	s.made[key] = one
	return one
}

// Admit asks for a start at now. A refusal says why there is none.
func (s *StepBreakers) Admit(b StepBreaker, now time.Time, emit func(events.Event)) (t breaker.Ticket, refusal string) {
	one := s.of(b, now)
	one.mu.Lock()
	defer one.mu.Unlock()
	if refusal := one.refusal(now); refusal != "" {
		return breaker.Ticket{}, refusal
	}
	t, transitions := one.breaker.Start(now)
	one.emit(transitions, emit)
	return t, ""
}

// Refusal returns why a start at that time would be refused whatever happens until then, or nothing.
func (s *StepBreakers) Refusal(b StepBreaker, at time.Time) string {
	one := s.of(b, at)
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.breaker.Admit(at).Verdict != breaker.Shut {
		return ""
	}
	return one.refusal(at)
}

// Report gives the outcome of a start.
func (s *StepBreakers) Report(b StepBreaker, t breaker.Ticket, success bool, now time.Time, emit func(events.Event)) {
	one := s.of(b, now)
	one.mu.Lock()
	defer one.mu.Unlock()
	if success {
		one.emit(one.breaker.Success(t, now), emit)
		return
	}
	one.emit(one.breaker.Failure(t, now), emit)
}

// Release gives a start back that was stopped and has no outcome.
func (s *StepBreakers) Release(b StepBreaker, t breaker.Ticket) {
	one := s.of(b, time.Now())
	one.mu.Lock()
	defer one.mu.Unlock()
	one.breaker.Release(t)
}

func (b *stepBreaker) refusal(at time.Time) string {
	switch b.breaker.Admit(at).Verdict {
	case breaker.Shut:
		return fmt.Sprintf("the circuit breaker of %s is open", b.scope)
	case breaker.Full:
		return fmt.Sprintf("the circuit breaker of %s is half-open and has all its tests running", b.scope)
	case breaker.Run:
	}
	return ""
}

func (b *stepBreaker) emit(transitions []breaker.Transition, emit func(events.Event)) {
	for _, t := range transitions {
		emit(events.Circuit(b.scope, t))
	}
}
