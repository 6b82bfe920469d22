package agent

import (
	"context"
	"time"

	"prodigy/internal/ai"
	"prodigy/internal/events"
	"prodigy/internal/limit"
	"prodigy/internal/outputs"
	"prodigy/internal/process"
)

// noJob is the Host of attempts that belong to no job. Nobody hears of their events.
type noJob struct {
	breakers StepBreakers
	unmasked UnmaskedOutputs
}

func (*noJob) StepTurn(_ context.Context, a *Attempt, _ StepTurn, _ bool) (int, error) {
	return a.Worker, nil
}

func (*noJob) Emit(*Attempt, events.Event)             {}
func (*noJob) Output(*Attempt, outputs.Entry)          {}
func (*noJob) Progress(*Attempt, events.AgentProgress) {}
func (*noJob) Stopping() error                         { return nil }
func (*noJob) Lowered(int, error)                      {}
func (*noJob) Register() *process.Register             { return nil }

func (*noJob) Pause(ctx context.Context, a *Attempt, d time.Duration, _ bool) (int, error) {
	return a.Worker, process.Sleep(ctx, d)
}

func (h *noJob) KeepUnmasked(a *Attempt, step int, p Printed) { h.unmasked.Keep(a, step, p) }

func (h *noJob) Unmasked(a *Attempt, phase string, step int) (Printed, bool) {
	return h.unmasked.Get(a, phase, step)
}

func (h *noJob) AdmitStep(_ context.Context, b StepBreaker) (limit.Ticket, string, error) {
	t, refusal := h.breakers.Admit(b, time.Now(), func(events.Event) {})
	return t, refusal, nil
}

func (h *noJob) StepRefusal(_ context.Context, b StepBreaker, d time.Duration) (string, error) {
	return h.breakers.Refusal(b, time.Now().Add(d)), nil
}

func (h *noJob) ReportStep(b StepBreaker, t limit.Ticket, success bool) {
	h.breakers.Report(b, t, success, time.Now(), func(events.Event) {})
}

func (h *noJob) ReleaseStep(b StepBreaker, t limit.Ticket) { h.breakers.Release(b, t) }

// AdmitAgent holds nothing back: nobody else uses the plan.
func (*noJob) AdmitAgent(_ context.Context, a *Attempt, ask AgentAsk, _ bool) (int, AgentTicket, *Failure, error) {
	return a.Worker, AgentTicket{Cap: ask.MaxCost}, nil, nil
}

func (*noJob) AgentCost(AgentTicket, limit.USD) bool { return false }

func (*noJob) RecordUsage(*Attempt, AgentTicket, events.AgentUsage) {}

func (*noJob) ReportAgent(*Attempt, AgentTicket, *Failure, ai.LimitUse) (bool, error) {
	return false, nil
}

func (*noJob) ReleaseAgent(AgentTicket) {}
