package natsfleet

import (
	"context"
	"testing"

	"prodigy/internal/agent"
	"prodigy/internal/ai"
	"prodigy/internal/events"
	"prodigy/internal/fleet"
	"prodigy/internal/limit"
)

// What attempts ask while a job that was stopped goes on is asked for as long as the job lives then, or did. With -race.
func TestAttemptsAskWhileAStoppedJobGoesOn(t *testing.T) {
	f := newField(t)
	w := newTestWorker(t)
	w.brokerConn = f.coordinator().brokerConn
	w.node.Instance = w.instance()
	entry := fleet.Job{V: fleet.Protocol, ID: "job", Version: "test", Owner: "a", Lease: fleet.LeastHere, Files: "list", Stop: fleet.Kill}
	w.applyJob("j", entry, nil)
	host, a := &workerHost{worker: w, job: w.state.jobs["j"]}, &agent.Attempt{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		host.ReportStep(agent.StepBreaker{}, limit.Ticket{}, true)
		host.Unmasked(a, "map", 0)
		host.AgentCost(agent.AgentTicket{}, 0)
		host.RecordUsage(a, agent.AgentTicket{}, events.AgentUsage{})
		_, _ = host.ReportAgent(a, agent.AgentTicket{}, nil, ai.LimitUse{})
	}()
	entry.Owner, entry.Stop = "b", ""
	w.applyJob("j", entry, nil) // it goes on
	w.mu.Lock()
	host.job.cancel(context.Canceled)
	w.mu.Unlock()
	<-done
}
