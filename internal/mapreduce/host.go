package mapreduce

import (
	"cmp"
	"context"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/process"
)

var _ agent.Host = (*host)(nil)

// Emit sends an event to the owner, which records it.
func (h *host) Emit(a *agent.Attempt, e events.Event) {
	if a.Phase == ofSetup || a.Phase == ofVerify {
		return // it is about no phase and no item
	}
	select {
	case h.inbox <- emitted{e, a.ID}:
	case <-h.closing: // it is about an attempt that was given up, and nobody records it any more
	}
}

func (j *owner) emit(e events.Event) { j.inbox <- emitted{event: e} }

func (m emitted) deliver(p *pool) {
	switch e := m.event.(type) { // at the end of a step of a phase that runs once, where its outputs are
	case events.StepCompleted:
		e.Outputs = p.printed.take(m.attempt)
		m.event = e
	case events.StepFailed:
		if e.ItemID == "" {
			e.Outputs = p.printed.of(m.attempt)
		}
		m.event = e
	}
	p.Record(m.event)
	switch e := m.event.(type) {
	case events.QuotaResumed:
		p.restartClocks()
	case events.AgentPlaced:
		one := p.Running[e.ItemIndex]
		if f := p.flights[one.Token]; f != nil && one.Attempt == e.Attempt && !f.placed {
			f.placed, f.began = true, time.Now()
		}
	}
}

// Progress passes e to whoever watches the job.
func (h *host) Progress(_ *agent.Attempt, e events.AgentProgress) {
	if h.config.Progress != nil {
		h.config.Progress(e)
	}
}

// Pause waits between two tries of a step. In the map phase the agent leaves its slot to others after some
// time, unless it has to keep it or there is only one. A stop ends the wait at once.
func (h *host) Pause(ctx context.Context, a *agent.Attempt, d time.Duration, keepSlot bool) (slot int, err error) {
	w := h.workflow
	k := newParking(a)
	k.due, k.retries, k.keeps = time.Now().Add(d), true, h.keeps(a, keepSlot)
	k.turn = a.ItemID != "" &&
		(w.Map.Rate.Limit.Count > 0 || w.Map.Concurrency != nil || w.ErrorPolicy.RetryRatio != nil)
	return h.yielding(ctx, a, func() (int, error) {
		if k.keeps {
			return h.parked(ctx, k)
		}
		after := w.Map.SlotWait()
		if k.keeps = after.Never || d <= after.Time; !k.keeps && after.Time > 0 {
			leaves := time.Now().Add(after.Time)
			inSlot := newParking(a)
			inSlot.due, inSlot.retries, inSlot.keeps = leaves, true, true
			if _, err := h.parked(ctx, inSlot); err != nil {
				return 0, err
			}
			if now := time.Now(); now.Before(leaves) { // somebody has asked to retry now
				k.due, k.keeps = now, true
			}
		}
		return h.parked(ctx, k)
	})
}

// keeps reports whether an agent keeps its slot while it waits: it is about no item, there is only one slot, or the
// workspace of the slot is its own.
func (h *host) keeps(a *agent.Attempt, keepSlot bool) bool {
	return keepSlot || a.ItemID == "" || h.serial || h.space != nil
}

// StepTurn waits for a turn of the rate of a step.
func (h *host) StepTurn(ctx context.Context, a *agent.Attempt, t agent.StepTurn, keepSlot bool) (slot int, err error) {
	t.Key = bounded(t.Key)
	k := newParking(a)
	k.step, k.asked = &t, time.Now().Add(-t.Late)
	k.keeps = h.keeps(a, keepSlot)
	return h.yielding(ctx, a, func() (int, error) { return h.parked(ctx, k) })
}

// parked has the owner wake an agent when it is due and the job not paused, and returns the slot that it goes on in.
func (h *host) parked(ctx context.Context, k *parking) (slot int, err error) {
	h.inbox <- k
	select {
	case slot := <-k.wake:
		return slot, nil
	case <-h.halting:
		return 0, errStopping
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// Stopping returns the cause of the stop that somebody has asked for, if they have. It waits while the job is paused.
func (h *host) Stopping() error {
	_, err := h.parked(h.config.Stop, &parking{wake: make(chan int, 1), keeps: true})
	return cmp.Or(h.stopping(), err)
}

// Lowered has fewer agents at work from now on.
func (h *host) Lowered(most int, why error) {
	if !h.config.OnFleet { // else it is about the steps of other phases
		h.room.Store(int64(most))
	}
	h.notice(process.Shortage(why) + ": continuing with " + slots(most))
}

// Register returns the register of the commands of the job.
func (h *host) Register() *process.Register { return h.register }

// KeepUnmasked keeps what is not in the log because it holds secrets, for as long as the run lasts.
func (h *host) KeepUnmasked(a *agent.Attempt, step int, p agent.Printed) {
	if a.Phase != ofSetup && a.Phase != ofVerify {
		h.UnmaskedOutputs.KeepUnmasked(a, step, p)
	}
}
