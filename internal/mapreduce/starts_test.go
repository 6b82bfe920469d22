package mapreduce

import (
	"testing"

	"prodigy/internal/agent"
	"prodigy/internal/ai"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/limit"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

// An agent that the run before admitted, and that has met the limit of its plan since, waits for the limit as if this run had admitted it.
func TestAnAgentOfTheRunBeforeAsksAgainAtALimit(t *testing.T) {
	for _, c := range []struct {
		name    string
		on      limit.OnQuota
		failure *agent.Failure
		want    bool
	}{
		{"a limit", limit.QuotaPause, &agent.Failure{Failure: retry.Failure{Type: retry.TypeQuota}}, true},
		{"a login", limit.QuotaPause, &agent.Failure{Failure: retry.Failure{Type: retry.TypeAuth}}, true},
		{"a limit that is a failure", limit.QuotaFail, &agent.Failure{Failure: retry.Failure{Type: retry.TypeQuota}}, false},
		{"another failure", limit.QuotaPause, &agent.Failure{Failure: retry.Failure{Type: retry.TypeNetwork}}, false},
		{"success", limit.QuotaPause, nil, false},
	} {
		j := &owner{workflow: &workflow.Workflow{ErrorPolicy: errorpolicy.Policy{Quota: &limit.QuotaPolicy{OnQuota: c.on}}}}
		h := &host{owner: j, starts: starts{ledger: new(limit.Ledger), open: map[int64]start{}}}
		again, err := h.ReportAgent(&agent.Attempt{Assignment: agent.Assignment{ItemID: "item_1"}},
			agent.AgentTicket{ID: -1}, c.failure, ai.LimitUse{})
		if again != c.want || err != nil {
			t.Errorf("%s: it asks again: %v, %v; want %v", c.name, again, err, c.want)
		}
	}
}
