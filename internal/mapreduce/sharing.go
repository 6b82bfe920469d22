package mapreduce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/workflow"
)

// NoPool is the name of a pool with which a resumed job shares no slots any more.
const NoPool = "none"

// openShared opens the pool that the job shares slots of, which a resumed job has recorded. It returns nil when
// there is none.
func openShared(ctx context.Context, c Config, w *workflow.Workflow, recorded *jobs.Pool) (*sharedSlots, error) {
	wanted := c.Pool
	if wanted.Name == "" && recorded != nil {
		wanted = *recorded
	}
	switch {
	case wanted.Name == "" || wanted.Name == NoPool:
		return nil, nil
	case w.Map == nil:
		return nil, job.Refusef("--pool requires items, and a standard workflow has none")
	case c.OnFleet:
		return nil, job.Refusef("--pool cannot be used with --fleet: it limits the slots of this machine")
	}
	p, err := limit.OpenSharedPool(ctx, c.Home.Root, wanted.Name, wanted.Slots)
	if size, ok := errors.AsType[*limit.SharedPoolSizeError](err); ok {
		return nil, job.Refusef("%v", size)
	}
	if err != nil {
		return nil, err
	}
	return &sharedSlots{SharedPool: p, held: map[int]*limit.SharedSlot{}}, nil
}

// yielding runs a wait of an agent, during which it holds no shared slot.
func (h *host) yielding(ctx context.Context, a *agent.Attempt, wait func() (slot int, err error)) (int, error) {
	s := h.shared
	if s == nil || a.ItemID == "" {
		return wait()
	}
	s.yield(a.Worker)
	slot, err := wait()
	if err != nil || s.has(slot) {
		return slot, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-h.halting:
			cancel(cmp.Or(h.stopping(), errStopping))
		case <-ctx.Done():
		}
	}()
	shared, err := s.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	s.put(slot, shared)
	return slot, nil
}

const (
	// tellAfter is how long a job waits for a shared slot before it says so.
	tellAfter = 2 * time.Second
	// idleAsks is how often a slot is asked for at least while nothing can start in it.
	idleAsks = time.Second
	// leastIdle is how long it is not asked for at least when nothing could start in the last one.
	leastIdle = 10 * time.Millisecond
)

// seek asks for a shared slot if something could start in it now.
func (p *pool) seek(now time.Time) {
	s := &p.slots.seeker
	switch {
	case s.found != nil || s.slot != nil || p.halted != nil:
		return
	case !p.hasReady(now):
		p.soonDue(now)
		return
	case now.Before(s.idle):
		p.soon(s.idle)
		return
	}
	ctx, cancel := context.WithCancel(p.runners.ctx)
	found := make(chan foundSlot, 1)
	s.found, s.cancel = found, cancel
	shared, told := p.shared, s.told
	s.told = s.told || p.runners.running == 0
	p.agents.Go(func() error {
		slow := time.AfterFunc(tellAfter, func() {
			if !told {
				p.notice(fmt.Sprintf("waiting for one of the %d slots of pool %s, in use by other jobs",
					shared.Slots, shared.Name))
			}
		})
		defer slow.Stop()
		slot, err := shared.Acquire(ctx)
		found <- foundSlot{slot, err}
		return nil
	})
}

// foundShared takes over the shared slot that was asked for.
func (p *pool) foundShared(f foundSlot) {
	p.slots.seeker.cancel()
	p.slots.seeker.found = nil
	if f.err != nil {
		p.haltForOwn(f.err)
		return
	}
	p.slots.seeker.slot = f.slot
}

// returnShared gives a shared slot back in which nothing could start.
func (p *pool) returnShared(now time.Time) {
	s := &p.slots.seeker
	if s.slot == nil {
		return
	}
	_ = s.slot.Release()
	s.slot = nil
	s.idle = now.Add(idleAsks)
	if next := p.next; !next.IsZero() && next.Before(s.idle) {
		s.idle = next
	}
	if soon := now.Add(leastIdle); s.idle.Before(soon) {
		s.idle = soon
	}
	p.soon(s.idle)
}
