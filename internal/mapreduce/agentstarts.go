package mapreduce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/ai"
	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/limit"
	"prodigy/internal/retry"
)

// budget returns what the agents of the job may use. What a command line said goes before the workflow.
func (j *owner) budget() limit.Budget {
	b := j.workflow.Budget
	switch {
	case j.config.MaxCost > 0:
		b.Job = j.config.maxCost()
	case j.MaxCost != nil:
		b.Job = j.MaxCost
	}
	return b
}

// AdmitAgent waits until the gate of a pool and the budget admit an agent.
func (h *host) AdmitAgent(ctx context.Context, a *agent.Attempt, ask agent.AgentAsk, keepSlot bool) (slot int,
	t agent.AgentTicket, refusal *agent.Failure, err error,
) {
	item := a.ItemIndex
	if a.ItemID == "" {
		item = -1
	}
	for {
		h.starts.mu.Lock()
		t, wait, err := h.starts.admit(item, ask, time.Now())
		ends := h.starts.ends.Load()
		if spent, ok := errors.AsType[*limit.JobSpent](err); ok && !h.starts.reached {
			h.starts.reached = true
			h.emit(events.BudgetReached{
				LimitUSD: spent.Limit, SpentUSD: spent.Spent, NextUSD: spent.Next, LimitTokens: spent.Tokens,
				SpentTokens: spent.Used, Running: h.starts.ledger.Running(),
			})
		}
		h.starts.mu.Unlock()
		if spent, ok := errors.AsType[*limit.ItemSpent](err); ok {
			return a.Worker, t, &agent.Failure{Failure: retry.Failure{
				Type: retry.TypeBudget, Message: spent.Error(),
				ExitCode: -1, Exact: true,
			}}, nil
		}
		if err != nil || wait <= 0 {
			return a.Worker, t, nil, err
		}
		k := newParking(a)
		k.keeps, k.forEnd, k.ends = h.keeps(a, keepSlot), wait == limit.EndWait, ends
		k.dueInOrder(time.Now().Add(wait))
		slot, err = h.yielding(ctx, a, func() (int, error) { return h.parked(ctx, k) })
		if err != nil {
			return 0, t, nil, err
		}
		a.Worker = slot
	}
}

// AgentCost notes what an agent that runs has cost by now.
func (h *host) AgentCost(t agent.AgentTicket, cost limit.USD) (over bool) {
	h.starts.mu.Lock()
	defer h.starts.mu.Unlock()
	own, job := h.starts.ledger.Live(t.ID, cost)
	if st, ok := h.starts.open[t.ID]; ok && job && !own {
		st.grant.Rest = true // it may have cost more, if only there had been more left
		h.starts.open[t.ID] = st
	}
	return own || job
}

// RecordUsage records what an agent has used.
func (h *host) RecordUsage(a *agent.Attempt, t agent.AgentTicket, e events.AgentUsage) {
	h.starts.mu.Lock()
	defer h.starts.mu.Unlock()
	h.starts.ledger.Add(e.Index(), e.Step, e.Use())
	h.starts.free(t)
	h.emit(e)
}

// ReleaseAgent gives a start back.
func (h *host) ReleaseAgent(t agent.AgentTicket) {
	h.starts.mu.Lock()
	defer h.starts.mu.Unlock()
	st, _ := h.starts.close(t)
	h.starts.release(st)
}

// ReportAgent says to the gates of a pool how an agent ended.
func (h *host) ReportAgent(a *agent.Attempt, t agent.AgentTicket, f *agent.Failure, use ai.LimitUse) (again bool,
	err error,
) {
	s := &h.starts
	s.mu.Lock()
	defer s.mu.Unlock()
	st, ok := s.close(t)
	p, now := cmp.Or(h.workflow.ErrorPolicy.Quota, &limit.QuotaPolicy{}), time.Now()
	limited := f != nil && p.OnQuota != limit.QuotaFail && (f.Type == retry.TypeQuota || f.Type == retry.TypeAuth)
	if !ok { // the run before admitted it: when it asks again, the gate of now learns of the limit
		return limited, nil
	}
	if limited {
		return h.metLimit(a, st, f, p, now)
	}
	for k, ticket := range st.gates {
		g := s.gate(k)
		g.auth = false
		if _, opened, _ := g.Report(ticket, limit.GateReport{Item: a.ItemID}, *p, h.meta.Seed, now); opened {
			h.emit(events.QuotaResumed{Pool: k.pool, Model: k.model})
		}
	}
	if p.PauseAt != nil && use.Share >= *p.PauseAt {
		h.nearLimit(a, st, use, p, now)
	}
	// An agent that may have cost more, if only there had been more left, asks again: what is left now decides.
	return f != nil && f.Type == retry.TypeBudget && st.grant.Rest, nil
}

// metLimit closes the gate of the limit that an agent has met. The others learn nothing of that.
func (h *host) metLimit(a *agent.Attempt, st start, f *agent.Failure, p *limit.QuotaPolicy, now time.Time) (again bool,
	err error,
) {
	s := &h.starts
	k := gateKey{pool: s.pool(st.ask.Preset)}
	report := limit.GateReport{Kind: limit.GateAuth, Item: a.ItemID}
	if f.Type == retry.TypeQuota {
		report.Kind, report.Reset = limit.GateQuota, f.ResetAt
		k.model = s.model(st.ask.Preset, f.Scope)
	}
	met := st.gates[k]
	delete(st.gates, k)
	s.release(st)
	g := s.gate(k)
	if k.model != "" {
		g.steps[st.ask.Model] = true
	}
	refused := g.auth
	closed, _, poison := g.Report(met, report, *p, h.meta.Seed, now)
	if closed == nil {
		return !poison, nil
	}
	g.auth = closed.Kind == limit.GateAuth
	e := h.pause(a, k, st, *closed, f.Scope, f.Message, now)
	if closed.Kind == limit.GateAuth && refused {
		return false, fmt.Errorf("%s: %s: log in or add credit, then run prodigy resume", k.pool, f.Message)
	}
	return !poison, h.tooLong(e, *closed, p, now)
}

// nearLimit closes the gate of a limit that an agent has nearly used up. The agent itself is done.
func (h *host) nearLimit(a *agent.Attempt, st start, use ai.LimitUse, p *limit.QuotaPolicy, now time.Time) {
	s := &h.starts
	k := gateKey{s.pool(st.ask.Preset), s.model(st.ask.Preset, use.Scope)}
	g := s.gate(k)
	closed := g.Near(use.Reset, *p, h.meta.Seed, now)
	if closed == nil {
		return
	}
	if k.model != "" {
		g.steps[st.ask.Model] = true
	}
	e := h.pause(a, k, st, *closed, use.Scope,
		fmt.Sprintf("%.0f%% of the limit is used, pause_at is %g", 100*use.Share, *p.PauseAt), now)
	s.stop = h.tooLong(e, *closed, p, now)
}

// pause records and says that agents wait.
func (h *host) pause(a *agent.Attempt, k gateKey, st start, c limit.GateClosing, scope, message string,
	now time.Time,
) events.QuotaPaused {
	e := events.QuotaPaused{
		Pool: k.pool, Model: k.model, Kind: string(c.Kind), Scope: scope, Until: c.Until, Item: a.ItemID,
		Near: c.Near, Error: message,
	}
	if k.model != "" {
		e.Step = st.ask.Model
	}
	if !c.ResetAt.IsZero() {
		e.ResetAt = &c.ResetAt
	}
	h.emit(e)
	if h.config.Simulate == nil { // where nobody waits
		h.notice(pausedText(e, now))
	}
	return e
}

// pausedText says that agents wait, for people.
func pausedText(e events.QuotaPaused, now time.Time) string {
	return "paused: " + e.Words(now) + ", not counted as an attempt: " + e.Error + "; Ctrl-C stops, prodigy resume continues"
}

// tooLong returns the error with which the job stops instead of waiting.
func (h *host) tooLong(e events.QuotaPaused, c limit.GateClosing, p *limit.QuotaPolicy, now time.Time) error {
	most, tooLong := p.TooLong(c, now)
	at := check.Moment(c.Until)
	switch {
	case c.Kind != limit.GateQuota:
	case p.OnQuota == limit.QuotaStop:
		return fmt.Errorf("%s: %s: run prodigy resume after %s", e.Gate(), e.Error, at)
	case tooLong:
		return fmt.Errorf("%s: %s: longer than max_pause (%s); run prodigy resume after %s", e.Gate(),
			e.Error, duration.Format(most), at)
	}
	return nil
}
