package mapreduce

import (
	"cmp"
	"context"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/process"
	"prodigy/internal/workflow"
)

var _ agent.Host = (*host)(nil)

// Emit sends an event to the owner, which records it.
func (h *host) Emit(a *agent.Attempt, e events.Event) {
	if a.Phase == ofSetup || a.Phase == ofVerify {
		return // it is about no phase and no item
	}
	select {
	case h.job.inbox <- emitted{e, a.ID}:
	case <-h.job.closing: // it is about an attempt that was given up, and nobody records it any more
	}
}

func (h *host) emit(e events.Event) { h.job.inbox <- emitted{event: e} }

func (m emitted) deliver(p *pool) {
	switch e := m.event.(type) { // at the end of a step of a phase that runs once, where its outputs are
	case events.StepCompleted:
		e.Outputs = p.job.printed.take(m.attempt)
		m.event = e
	case events.StepFailed:
		if e.ItemID == "" {
			e.Outputs = p.job.printed.of(m.attempt)
		}
		m.event = e
	}
	p.job.Record(m.event)
	switch e := m.event.(type) {
	case events.QuotaResumed:
		p.restartClocks()
	case events.AgentPlaced:
		one := p.job.Fold.Running[e.ItemIndex]
		if f := p.flights[one.Token]; f != nil && one.Number == e.Attempt && !f.placed {
			f.placed, f.began = true, time.Now()
		}
	}
}

// Progress passes e to whoever watches the job.
func (h *host) Progress(_ *agent.Attempt, e events.AgentProgress) {
	if h.job.config.Progress != nil {
		h.job.config.Progress(e)
	}
}

// Pause waits between two tries of a step. In the map phase the agent leaves its slot to others after some
// time, unless it has to keep it or there is only one. A stop ends the wait at once.
func (h *host) Pause(ctx context.Context, a *agent.Attempt, d time.Duration, keepSlot bool) (slot int, err error) {
	return h.yielding(ctx, a, func() (int, error) {
		w := h.job.workflow
		turn := a.ItemID != "" &&
			(w.Map.Rate.Limit.Count > 0 || w.Map.Concurrency != nil || w.ErrorPolicy.RetryRatio != nil)
		wait := h.job.waits.begin(a.ItemID)
		defer h.job.waits.remove(wait)
		if h.keeps(a, keepSlot) {
			return h.rest(ctx, a, time.Now().Add(d), turn, wait.over)
		}
		return h.await(ctx, a, d, w.Map.SlotWait(), turn, wait.over)
	})
}

// keeps reports whether an agent keeps its slot while it waits: it is about no item, there is only one slot, or the
// workspace of the slot is its own.
func (h *host) keeps(a *agent.Attempt, keepSlot bool) bool {
	return keepSlot || a.ItemID == "" || h.job.serial || h.job.space != nil
}

// StepTurn waits for a turn of the rate of a step.
func (h *host) StepTurn(ctx context.Context, a *agent.Attempt, t agent.StepTurn, keepSlot bool) (slot int, err error) {
	t.Key = bounded(t.Key)
	k := newParking(a)
	k.step, k.asked = &t, time.Now().Add(-t.Late)
	k.keeps = h.keeps(a, keepSlot)
	return h.yielding(ctx, a, func() (int, error) { return h.parked(ctx, k) })
}

// parked has the owner wake an agent, and returns the slot that it goes on in.
func (h *host) parked(ctx context.Context, k *parking) (slot int, err error) {
	h.job.inbox <- k
	select {
	case slot := <-k.wake:
		return slot, nil
	case <-h.job.halting:
		return 0, errStopping
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// rest waits in the slot of an agent, until due or until over is closed, and then while the job is paused. With
// turn it takes a turn then.
func (h *host) rest(ctx context.Context, a *agent.Attempt, due time.Time, turn bool, over <-chan struct{}) (slot int,
	err error,
) {
	err = h.wait(ctx, due, over)
	for opened := h.job.gate.wait(); err == nil && opened != nil; opened = h.job.gate.wait() {
		err = h.wait(ctx, time.Now().Add(time.Hour), opened)
	}
	if err != nil || !turn {
		return a.Worker, err
	}
	k := newParking(a)
	k.turn, k.keeps = true, true
	_, err = h.parked(ctx, k)
	return a.Worker, err
}

// await waits d in the map phase, or until over is closed, and gives the slot to others after some time. With
// turn it takes a turn of the limit of starts then.
func (h *host) await(ctx context.Context, a *agent.Attempt, d time.Duration, after workflow.ParkAfter, turn bool,
	over <-chan struct{},
) (slot int, err error) {
	due := time.Now().Add(d)
	if after.Never || after.Time > 0 {
		if after.Never || d <= after.Time {
			return h.rest(ctx, a, due, turn, over)
		}
		if err := h.wait(ctx, due.Add(after.Time-d), over); err != nil {
			return 0, err
		}
		select {
		case <-over:
			return h.rest(ctx, a, time.Now(), turn, over)
		default:
		}
	}
	k := newParking(a)
	k.due, k.turn, k.retries = due, turn, over != nil
	if slot, err = h.parked(ctx, k); slot == sameSlot {
		return h.rest(ctx, a, due, turn, over)
	}
	return slot, err
}

// wait returns when something is due, or over is closed.
func (h *host) wait(ctx context.Context, due time.Time, over <-chan struct{}) error {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-over:
		return nil
	case <-h.job.halting:
		return errStopping
	case <-h.job.config.Stop.Done():
		return context.Cause(h.job.config.Stop)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Stopping returns the cause of the stop that somebody has asked for, if they have. It waits while the job is paused.
func (h *host) Stopping() error {
	for opened := h.job.gate.wait(); opened != nil && h.job.stopResult() == nil; opened = h.job.gate.wait() {
		select {
		case <-opened:
		case <-h.job.config.Stop.Done():
		case <-h.job.halting:
			return cmp.Or(h.job.stopping(), errStopping)
		}
	}
	return h.job.stopping()
}

// Lowered has fewer agents at work from now on.
func (h *host) Lowered(most int, why error) {
	if !h.job.config.OnFleet { // else it is about the steps of other phases
		h.job.room.Store(int64(most))
	}
	h.job.notice(process.Shortage(why) + ": continuing with " + slots(most))
}

// Register returns the register of the commands of the job.
func (h *host) Register() *process.Register { return h.job.register }

// KeepUnmasked keeps what is not in the log because it holds secrets, for as long as the run lasts.
func (h *host) KeepUnmasked(a *agent.Attempt, step int, p agent.Printed) {
	if a.Phase != ofSetup && a.Phase != ofVerify {
		h.UnmaskedOutputs.KeepUnmasked(a, step, p)
	}
}
