package mapreduce

import (
	"context"
	"fmt"
	"sync"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/quota"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

// quotas are the gates of the pools of agents of a job. They are used by the goroutines of the attempts. The lock is held while events are
// emitted, so that the log has them in order.
type quotas struct {
	mu    sync.Mutex
	gates map[string]*quota.Gate
	auth  map[string]bool // a pool whose agents could not log in the last time
}

// restore closes the gates that an earlier run left closed.
func (q *quotas) restore(paused map[string]events.QuotaPaused) {
	for pool, e := range paused {
		q.gate(pool).Restore(quota.Kind(e.Kind), e.Until)
	}
}

func (q *quotas) gate(pool string) *quota.Gate {
	if q.gates == nil {
		q.gates, q.auth = map[string]*quota.Gate{}, map[string]bool{}
	}
	if q.gates[pool] == nil {
		q.gates[pool] = new(quota.Gate)
	}
	return q.gates[pool]
}

// quotaPolicy returns what a used-up limit does.
func (j *job) quotaPolicy() quota.Policy {
	if p := j.workflow.ErrorPolicy.Quota; p != nil {
		return *p
	}
	return quota.Policy{}
}

// AdmitAgent waits until the gate of a pool admits an agent.
func (h *host) AdmitAgent(ctx context.Context, a *agent.Attempt, pool string, keepSlot bool) (slot int, t quota.Ticket, err error) {
	for {
		h.quotas.mu.Lock()
		ticket, wait := h.quotas.gate(pool).Admit(time.Now())
		h.quotas.mu.Unlock()
		if wait <= 0 {
			return a.Worker, ticket, nil
		}
		if keepSlot || a.ItemID == "" || h.job.parallel == 1 || h.job.space != nil {
			slot, err = a.Worker, h.wait(ctx, time.Now().Add(wait))
		} else {
			slot, err = h.await(ctx, a, wait, workflow.ParkAfter{})
		}
		if err != nil {
			return 0, quota.Ticket{}, err
		}
		a.Worker = slot
	}
}

// ReleaseAgent gives a start back.
func (h *host) ReleaseAgent(pool string, t quota.Ticket) {
	h.quotas.mu.Lock()
	defer h.quotas.mu.Unlock()
	h.quotas.gate(pool).Release(t)
}

// ReportAgent tells the gate of a pool how an agent ended.
func (h *host) ReportAgent(a *agent.Attempt, pool string, t quota.Ticket, f *agent.Failure) (again bool, err error) {
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
	q := &h.quotas
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	closed, opened, poison := q.gate(pool).Report(t, report, p, h.job.meta.Seed, now)
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
	return report.Kind != "" && !poison, nil
}
