package agent

import (
	"context"
	"fmt"
	"sync"
	"time"

	"prodigy/internal/ai"
	"prodigy/internal/events"
	"prodigy/internal/limit"
	"prodigy/internal/outputs"
	"prodigy/internal/process"
)

// Host is the job that the attempts of an Executor belong to. The Executor keeps nothing that outlives an
// attempt except compiled steps: whatever several attempts share, or the log has to know, goes through the
// Host. So an attempt can run on another machine, where a Host passes the calls on: all their arguments and
// results survive JSON. Methods are called from many goroutines at once.
type Host interface {
	// Emit records what happens inside an attempt: in the map phase the events that events.Within knows, and
	// outside it also StepPrinted and StepCompleted. The events of one attempt come in order. Those of the zero Attempt
	// are about the job.
	Emit(a *Attempt, e events.Event)

	// Output keeps what a command of the attempt has printed, in order. It comes before the events that follow
	// from its end.
	Output(a *Attempt, e outputs.Entry)

	// Progress shows which step an agent of the map phase begins, whether that is recorded or not. It does not block.
	Progress(a *Attempt, e events.AgentProgress)

	// Pause waits d between two tries of a step, and returns the worker slot that the attempt goes on in. With
	// keepSlot that is a.Worker; without, the slot may serve other attempts meanwhile. The error is a stop.
	Pause(ctx context.Context, a *Attempt, d time.Duration, keepSlot bool) (slot int, err error)

	// StepTurn waits for a turn of the rate of a step, before each of its tries. It returns the worker slot
	// that the attempt goes on in, as Pause does: while it waits, the slot serves other attempts. The error is
	// a stop.
	StepTurn(ctx context.Context, a *Attempt, t StepTurn, keepSlot bool) (slot int, err error)

	// Stopping returns why no further step may begin, or nil. Attempts of the map phase do not ask: one that
	// may finish is not run again.
	Stopping() error

	// Lowered reports that the Executor runs at most so many commands at once from now on, and what there is
	// too little of.
	Lowered(most int, why error)

	// Register returns the register of the commands that run on this machine. Nil: there is none.
	Register() *process.Register

	// KeepUnmasked keeps what a step outside the map phase printed when that holds secrets and so is masked in
	// the log. step is its index.
	KeepUnmasked(a *Attempt, step int, p Printed)

	// Unmasked returns what KeepUnmasked was given for a step of a phase of the same job. A resumed run does
	// not have it.
	Unmasked(a *Attempt, phase string, step int) (p Printed, ok bool)

	// AdmitStep asks the breaker of a step for a start. A refusal says why it may not start; without one, the
	// start is to be answered by ReportStep or ReleaseStep. The error is a stop.
	AdmitStep(ctx context.Context, b StepBreaker) (t limit.Ticket, refusal string, err error)

	// ReportStep tells the breaker of a step how a start ended. It returns for how long the breaker will refuse all
	// starts from now on, 0 if it does not.
	ReportStep(b StepBreaker, t limit.Ticket, success bool) (shut time.Duration)

	// ReleaseStep gives the breaker of a step a start back that was stopped and has no outcome.
	ReleaseStep(b StepBreaker, t limit.Ticket)

	// AdmitAgent waits until an AI coding CLI may start: for the limit of its plan, and for the budget. It
	// returns the worker slot that the attempt goes on in, as Pause does: while it waits, the slot serves other
	// attempts. A refusal is the failure of a start that the item may not pay for any more. Without one, the
	// start is to be answered by ReportAgent or ReleaseAgent. The error is a stop, or says that the job has to
	// stop.
	AdmitAgent(
		ctx context.Context, a *Attempt, ask AgentAsk, keepSlot bool,
	) (slot int, t AgentTicket, refusal *Failure, err error)

	// AgentCost says what an agent that runs has cost by now. It reports whether the agent has to end.
	AgentCost(t AgentTicket, cost limit.USD) (over bool)

	// RecordUsage records what a run of an admitted agent has used. What was reserved for it is free again.
	RecordUsage(a *Attempt, t AgentTicket, e events.AgentUsage)

	// ReportAgent says how an agent ended, and how far the limit of its plan is used up. again says that it met
	// a limit that it may wait for, and is to ask for another start: that charges nothing.
	ReportAgent(a *Attempt, t AgentTicket, f *Failure, use ai.LimitUse) (again bool, err error)

	// ReleaseAgent gives a start back that was stopped and has no outcome.
	ReleaseAgent(t AgentTicket)
}

// StepTurn is a step that has a rate.
type StepTurn struct {
	Step     string `json:"step"`          // label
	Position int    `json:"position"`      // in the list of the agent
	Key      string `json:"key,omitempty"` // with a rate for each key

	// Late is how long the step had waited when it could not use the turn that it was given, such as for lack
	// of a slot. It goes before the others then. 0: it asks for the first time.
	Late time.Duration `json:"late,omitempty"`
}

// AgentAsk is an AI coding CLI that wants to start.
type AgentAsk struct {
	Preset  string    `json:"preset"`             // the name of the preset
	Model   string    `json:"model,omitempty"`    // that it is to use; empty means the CLI decides
	Step    string    `json:"step"`               // label
	MaxCost limit.USD `json:"max_cost,omitempty"` // of the step; 0 if it has none

	// Inside is the ID of a start that is not reported before this one has ended, or 0.
	Inside int64 `json:"inside,omitempty"`
}

// AgentTicket is a start of an AI coding CLI that was admitted.
type AgentTicket struct {
	ID      int64     `json:"id"`
	Cap     limit.USD `json:"cap,omitempty"`     // what it may cost; 0 means no limit
	Assumed limit.USD `json:"assumed,omitempty"` // what it counts against the budget if nobody learns what it has cost
	Owner   string    `json:"owner,omitempty"`   // of a fleet: the coordinator that gave it, since each begins with the same IDs
}

// UnmaskedOutputs is the part of a Host that keeps outputs, in memory. The zero value is ready to use.
type UnmaskedOutputs struct{ printed sync.Map }

type unmaskedKey struct {
	job, phase string
	step       int
}

// KeepUnmasked is that of a Host.
func (u *UnmaskedOutputs) KeepUnmasked(a *Attempt, step int, p Printed) {
	u.printed.Store(unmaskedKey{a.JobID, a.Phase, step}, p)
}

// Unmasked is that of a Host.
func (u *UnmaskedOutputs) Unmasked(a *Attempt, phase string, step int) (Printed, bool) {
	kept, ok := u.printed.Load(unmaskedKey{a.JobID, phase, step})
	p, _ := kept.(Printed)
	return p, ok
}

// StepBreaker names the circuit breaker of one step, which all attempts at the step share, and says how it is
// configured.
type StepBreaker struct {
	JobID  string              `json:"job_id"`
	Phase  string              `json:"phase"`
	Step   string              `json:"step"`          // label of the step; also the scope of the events of the breaker
	Nth    int                 `json:"nth,omitempty"` // how many steps before it in the phase have the same label and a breaker
	Config limit.BreakerConfig `json:"config"`
}

// StepBreakers is the part of a Host that has the circuit breakers of steps. They belong to the coordinator of a job:
// wherever the attempts run, each step has one breaker. The zero value has none yet; they are made as they are asked
// for. It is safe for concurrent use, and its lock is held while transitions are told, so that the log has them in
// order.
type StepBreakers struct {
	// Told is called with each transition. It may be nil.
	Told func(events.Event)

	mu   sync.Mutex
	made map[StepBreaker]*limit.Breaker
	last map[string]map[string]limit.Transition // see Continue
}

// Continue gives the last transitions of the breakers of a phase by the labels of their steps, as an earlier
// run left them. It has no effect on breakers that have been asked for, and only the first call for a phase has
// one.
func (s *StepBreakers) Continue(phase string, last map[string]limit.Transition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = make(map[string]map[string]limit.Transition)
	}
	if _, known := s.last[phase]; !known {
		s.last[phase] = last
	}
}

// with calls do with the breaker of b, and tells the transitions that it returns.
func (s *StepBreakers) with(b StepBreaker, do func(*limit.Breaker) []limit.Transition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.made[b]
	if one == nil {
		if s.made == nil {
			s.made = make(map[StepBreaker]*limit.Breaker)
		}
		one = limit.ContinueBreaker(b.Config, s.last[b.Phase][b.Step])
		s.made[b] = one
	}
	for _, t := range do(one) {
		if s.Told != nil {
			s.Told(events.Circuit(b.Step, t))
		}
	}
}

func (b StepBreaker) open() string { return fmt.Sprintf("the circuit breaker of %s is open", b.Step) }

// AdmitStep is that of a Host.
func (s *StepBreakers) AdmitStep(_ context.Context, b StepBreaker) (t limit.Ticket, refusal string, err error) {
	s.with(b, func(one *limit.Breaker) (transitions []limit.Transition) {
		switch one.Admit(time.Now()).Verdict {
		case limit.Shut:
			refusal = b.open()
		case limit.Full:
			refusal = fmt.Sprintf("the circuit breaker of %s is half-open, and its probes are running", b.Step)
		case limit.Run:
			t, transitions = one.Start()
		}
		return transitions
	})
	return t, refusal, nil
}

// ReportStep is that of a Host.
func (s *StepBreakers) ReportStep(b StepBreaker, t limit.Ticket, success bool) (shut time.Duration) {
	s.with(b, func(one *limit.Breaker) []limit.Transition {
		now := time.Now()
		transitions := one.End(t, success, now)
		if a := one.Admit(now); a.Verdict == limit.Shut {
			shut = a.Until.Sub(now)
		}
		return transitions
	})
	return shut
}

// ReleaseStep is that of a Host.
func (s *StepBreakers) ReleaseStep(b StepBreaker, t limit.Ticket) {
	s.with(b, func(one *limit.Breaker) []limit.Transition {
		one.Release(t)
		return nil
	})
}
