package agent

import (
	"context"
	"time"

	"prodigy/internal/ai"
	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/limit"
	"prodigy/internal/outputs"
	"prodigy/internal/process"
)

// noJob is the Host of attempts that belong to no job. Nobody hears of their events.
type noJob struct {
	StepBreakers
	UnmaskedOutputs
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
	return a.Worker, duration.Sleep(ctx, d)
}

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
