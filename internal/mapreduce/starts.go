package mapreduce

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/quota"
	"prodigy/internal/retry"
	"prodigy/internal/spend"
	"prodigy/internal/workflow"
)

// starts are the AI coding CLIs of a job that were admitted: by the gates of their pools, and by the budget. They are used by the goroutines of the
// attempts. The lock is held while events are emitted, so that the log has them in order.
type starts struct {
	mu     sync.Mutex
	gates  map[string]*quota.Gate
	auth   map[string]bool // a pool whose agents could not log in the last time
	ledger *spend.Ledger
	open   map[int64]start // by the ID of their tickets

	reached bool // the budget of the job is spent, and that was recorded
}

// start is an admitted start that was not reported yet.
type start struct {
	pool  string
	gate  quota.Ticket
	grant spend.Grant
}

// restore begins where the run before ended: gates that it left closed, and what has been spent.
func (s *starts) restore(paused map[string]events.QuotaPaused, b spend.Budget, spent spend.Account) {
	s.gates, s.auth, s.open = map[string]*quota.Gate{}, map[string]bool{}, map[int64]start{}
	for pool, e := range paused {
		s.gate(pool).Restore(quota.Kind(e.Kind), e.Until)
	}
	s.ledger = spend.NewLedger(b, spent)
}

func (s *starts) gate(pool string) *quota.Gate {
	if s.gates[pool] == nil {
		s.gates[pool] = new(quota.Gate)
	}
	return s.gates[pool]
}

// quotaPolicy returns what a used-up limit does.
func (j *job) quotaPolicy() quota.Policy {
	if p := j.workflow.ErrorPolicy.Quota; p != nil {
		return *p
	}
	return quota.Policy{}
}

// budget returns what the agents of the job may use. What a command line said goes before the workflow.
func (j *job) budget() spend.Budget {
	b := j.workflow.Budget
	switch {
	case j.config.MaxCost > 0:
		b.Job = j.config.maxCost()
	case j.state.MaxCost != nil:
		b.Job = j.state.MaxCost
	}
	return b
}

// reservedWait is how often agents that wait for money that others have reserved ask again.
const reservedWait = time.Second

// admit asks the gate and the ledger at once, so that nobody holds one while it waits for the other. Without a ticket it says how long to wait.
func (s *starts) admit(item int, ask agent.AgentAsk, now time.Time) (t agent.AgentTicket, wait time.Duration, err error) {
	admit := s.gate(ask.Pool).Admit
	if ask.Inside != 0 {
		admit = s.gate(ask.Pool).AdmitInside
	}
	ticket, wait := admit(now)
	if wait > 0 {
		return t, wait, nil
	}
	grant, busy, err := s.ledger.Admit(spend.Ask{Item: item, Step: ask.Step, Max: ask.MaxCost})
	if busy || err != nil {
		s.gate(ask.Pool).Release(ticket)
		return t, reservedWait, err
	}
	s.open[grant.ID] = start{pool: ask.Pool, gate: ticket, grant: grant}
	return agent.AgentTicket{ID: grant.ID, Cap: grant.Cap, Assumed: grant.Assumed}, 0, nil
}

// close ends a start. It reports false if there is none with that ticket.
func (s *starts) close(t agent.AgentTicket) (start, bool) {
	st, ok := s.open[t.ID]
	delete(s.open, t.ID)
	s.ledger.Release(t.ID)
	return st, ok
}

// indexOf returns the index of the item of an attempt; below 0: it is in another phase.
func indexOf(a *agent.Attempt) int {
	if a.ItemID == "" {
		return -1
	}
	return a.ItemIndex
}

// AdmitAgent waits until the gate of a pool and the budget admit an agent.
func (h *host) AdmitAgent(ctx context.Context, a *agent.Attempt, ask agent.AgentAsk, keepSlot bool) (slot int, t agent.AgentTicket, refusal *agent.Failure, err error) {
	for {
		h.starts.mu.Lock()
		t, wait, err := h.starts.admit(indexOf(a), ask, time.Now())
		if spent, ok := errors.AsType[*spend.JobSpent](err); ok {
			h.budgetReached(spent)
		}
		h.starts.mu.Unlock()
		if spent, ok := errors.AsType[*spend.ItemSpent](err); ok {
			return a.Worker, t, &agent.Failure{Failure: retry.Failure{Type: retry.TypeBudget, Message: spent.Error(), ExitCode: -1, Exact: true}}, nil
		}
		if err != nil || wait <= 0 {
			return a.Worker, t, nil, err
		}
		if keepSlot || a.ItemID == "" || h.job.parallel == 1 || h.job.space != nil {
			slot, err = a.Worker, h.wait(ctx, time.Now().Add(wait))
		} else {
			slot, err = h.await(ctx, a, wait, workflow.ParkAfter{})
		}
		if err != nil {
			return 0, t, nil, err
		}
		a.Worker = slot
	}
}

// budgetReached records that the budget of the job is spent, once in a run.
func (h *host) budgetReached(spent *spend.JobSpent) {
	if h.starts.reached {
		return
	}
	h.starts.reached = true
	h.emit(events.BudgetReached{
		LimitUSD: spent.Limit, SpentUSD: spent.Spent, NextUSD: spent.Next, LimitTokens: spent.Tokens, SpentTokens: spent.Used, Running: h.starts.ledger.Running(),
	})
}

// AgentCost notes what an agent that runs has cost by now.
func (h *host) AgentCost(t agent.AgentTicket, cost spend.USD) (over bool) {
	h.starts.mu.Lock()
	defer h.starts.mu.Unlock()
	return h.starts.ledger.Live(t.ID, cost)
}

// RecordUsage records what an agent has used.
func (h *host) RecordUsage(a *agent.Attempt, t agent.AgentTicket, e events.AgentUsage) {
	h.starts.mu.Lock()
	defer h.starts.mu.Unlock()
	h.starts.ledger.Add(e.Index(), e.Step, e.Use())
	h.starts.ledger.Release(t.ID)
	h.emit(e)
}

// ReleaseAgent gives a start back.
func (h *host) ReleaseAgent(t agent.AgentTicket) {
	h.starts.mu.Lock()
	defer h.starts.mu.Unlock()
	if st, ok := h.starts.close(t); ok {
		h.starts.gate(st.pool).Release(st.gate)
	}
}

// ReportAgent says to the gate of a pool how an agent ended.
func (h *host) ReportAgent(a *agent.Attempt, t agent.AgentTicket, f *agent.Failure) (again bool, err error) {
	p := h.job.quotaPolicy()
	report := quota.Report{Item: a.ItemID}
	if f != nil && p.OnQuota != quota.Fail {
		switch f.Type {
		case retry.TypeQuota:
			report.Kind, report.Reset = quota.Limit, f.ResetAt
		case retry.TypeAuth:
			report.Kind = quota.Auth
		}
	}
	q := &h.starts
	q.mu.Lock()
	defer q.mu.Unlock()
	st, ok := q.close(t)
	if !ok {
		return false, nil
	}
	if f != nil && f.Type == retry.TypeBudget && st.grant.Rest {
		again = true // it may cost more, but there was no more left: what is left now decides
	}
	pool, now := st.pool, time.Now()
	closed, opened, poison := q.gate(pool).Report(st.gate, report, p, h.job.meta.Seed, now)
	refused := q.auth[pool]
	if closed != nil || report.Kind == "" {
		q.auth[pool] = report.Kind == quota.Auth
	}
	if opened {
		h.emit(events.QuotaResumed{Pool: pool})
	}
	if closed != nil {
		e := events.QuotaPaused{Pool: pool, Kind: string(closed.Kind), Scope: f.Scope, Until: closed.Until, Item: a.ItemID, Error: f.Message}
		if !closed.ResetAt.IsZero() {
			e.ResetAt = &closed.ResetAt
		}
		h.emit(e)
		most, tooLong := p.TooLong(*closed, now)
		at := closed.Until.Local().Format(time.DateTime)
		switch {
		case closed.Kind == quota.Auth && refused:
			return false, fmt.Errorf("%s: %s: log in or pay, then prodigy resume goes on", pool, f.Message)
		case closed.Kind == quota.Limit && p.OnQuota == quota.Stop:
			return false, fmt.Errorf("%s: %s: prodigy resume goes on, after %s", pool, f.Message, at)
		case closed.Kind == quota.Limit && tooLong:
			return false, fmt.Errorf("%s: %s: that is longer than max_pause (%s); prodigy resume goes on, after %s", pool, f.Message, most, at)
		}
		h.job.notice(fmt.Sprintf("paused: agents of %s wait until %s (in %s), no attempt is charged: %s; Ctrl-C stops, prodigy resume goes on",
			pool, at, closed.Until.Sub(now).Round(time.Second), f.Message))
	}
	return again || report.Kind != "" && !poison, nil
}
