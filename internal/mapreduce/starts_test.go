package mapreduce

import (
	"testing"

	"prodigy/internal/agent"
	"prodigy/internal/aicli"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/quota"
	"prodigy/internal/retry"
	"prodigy/internal/spend"
	"prodigy/internal/workflow"
)

// An agent that the run before admitted, and that has met the limit of its plan since, waits for the limit as if this run had admitted it.
func TestAnAgentOfTheRunBeforeAsksAgainAtALimit(t *testing.T) {
	for _, c := range []struct {
		name    string
		on      quota.OnQuota
		failure *agent.Failure
		want    bool
	}{
		{"a limit", quota.Pause, &agent.Failure{Failure: retry.Failure{Type: retry.TypeQuota}}, true},
		{"a login", quota.Pause, &agent.Failure{Failure: retry.Failure{Type: retry.TypeAuth}}, true},
		{"a limit that is a failure", quota.Fail, &agent.Failure{Failure: retry.Failure{Type: retry.TypeQuota}}, false},
		{"another failure", quota.Pause, &agent.Failure{Failure: retry.Failure{Type: retry.TypeNetwork}}, false},
		{"success", quota.Pause, nil, false},
	} {
		j := &job{workflow: &workflow.Workflow{ErrorPolicy: errorpolicy.Policy{Quota: &quota.Policy{OnQuota: c.on}}}}
		h := &host{job: j, starts: starts{ledger: new(spend.Ledger), open: map[int64]start{}}}
		again, err := h.ReportAgent(&agent.Attempt{ItemID: "item_1"}, agent.AgentTicket{ID: -1}, c.failure, aicli.LimitUse{})
		if again != c.want || err != nil {
			t.Errorf("%s: it asks again: %v, %v; want %v", c.name, again, err, c.want)
		}
	}
}
