package mapreduce

import (
	"context"
	"fmt"
	"slices"
	"time"

	"prodigy/internal/duration"
	"prodigy/internal/limit"
	"prodigy/internal/limits"
)

// openGates makes the limits of the map phase. The machine is looked at before it returns, and then until ctx ends.
func (p *pool) openGates(ctx context.Context) error {
	m := p.workflow.Map
	known, g := p.Limits, &p.gates
	g.windows, g.guards = limits.NewWindows(m.Windows), &limits.Guards{}
	g.rollout = &limits.Stages{Rollout: &known.Rollout, List: p.stages}
	g.first = limits.First{Stages: g.rollout}
	g.all = []limits.Limit{&known.Pause}
	asked := namesAny(slices.Concat(p.template.Steps, p.template.Handler), "item_total") || len(m.Input.Items) > 0
	if p.source.chosen != nil && asked { // agents ask how many items there are, or people know that number of a list
		until := time.Now().Add(totalWait)
		g.all = append(g.all, limits.Func(func(a limits.Ask) limits.Verdict {
			if p.source.chosen == nil {
				return limits.Verdict{}
			}
			return limits.WaitUntil(until, a.Now)
		}))
	}
	g.slot = []limits.Limit{
		g.windows, g.guards, limits.Func(p.admitSender), limits.Func(p.admitMerges), limits.Func(p.admitAlone),
		g.rollout,
		limits.Func(p.admitSlots), limits.Func(p.admitRoom), known.Concurrency,
	}
	if g.paces = []limits.Limit{limits.Pace{Concurrency: known.Concurrency}}; !p.rateKey {
		g.paces = append(g.paces, known.Rate)
	}
	p.Live = []limits.Limit{g.windows, g.guards}
	return p.watchMachine(ctx)
}

// asks returns the question whether something of a class may start.
func (p *pool) asks(c limits.Class, now time.Time) limits.Ask {
	begun := len(p.Running) + len(p.Waiting) + len(p.Merging) + p.starts.len() - p.lobby.again
	return limits.Ask{Class: c, Now: now, Busy: len(p.slots.taken), Begun: begun}
}

// ask asks limits in their order, and returns the answer of the first that does not say Go.
func (p *pool) ask(list []limits.Limit, a limits.Ask) limits.Verdict {
	for _, l := range list {
		if v := p.askOne(l, a); v.Answer != limits.Go {
			return v
		}
	}
	return limits.Verdict{}
}

// askOne asks a limit, and notes when to ask it again.
func (p *pool) askOne(l limits.Limit, a limits.Ask) limits.Verdict {
	v := l.Admit(a)
	if v.Answer != limits.Wait {
		return v
	}
	p.soon(v.Until)
	switch l := l.(type) {
	case *limits.Rate, limits.Pace:
		p.rated = true
	case *limits.Ratio:
		p.retriesWait = true
		if !l.Told {
			p.Record(l.Holds(a.Now))
		}
	}
	return v
}

// mayBegin reports whether a new item may begin, as far as that depends on the canary.
func (p *pool) mayBegin(now time.Time) bool {
	return p.gates.first.Admit(p.asks(limits.New, now)).Answer == limits.Go
}

// totalWait is how long the first agent waits for the end of the selection, if it wants to know how many items
// there are.
const totalWait = 100 * time.Millisecond

// admitSender holds back what would wait for the fleet to take it.
func (p *pool) admitSender(limits.Ask) limits.Verdict {
	return limits.WaitWhile(p.submitter.n.Load() >= mostUnsent)
}

// admitMerges holds back what would begin far behind what others have done already.
func (p *pool) admitMerges(limits.Ask) limits.Verdict {
	m, now := &p.merger, p.merger.busy || p.mayMerge()
	m.backlog = m.backlog && now
	behind := m.backlog || now && (p.slotsNow() == 1 || len(p.Merging) >= mergesAhead*p.parallel)
	return limits.WaitWhile(behind)
}

// admitAlone holds back all others while an item runs alone.
func (p *pool) admitAlone(limits.Ask) limits.Verdict {
	return limits.WaitWhile(p.suspects.alone && p.runners.busy())
}

// admitSlots holds back what finds all slots taken.
func (p *pool) admitSlots(a limits.Ask) limits.Verdict {
	return limits.WaitWhile(len(p.slots.free) == 0 || a.Busy >= p.slotsNow())
}

// admitRoom holds back what the machine has no files, processes or memory for.
func (p *pool) admitRoom(a limits.Ask) limits.Verdict {
	return limits.WaitWhile(int64(a.Busy) >= p.room.Load())
}

// slotsNow returns how many agents may be out at once. On a fleet that is no more than it has slots if there are
// workspaces: an agent that waits for a worker would begin at what was merged before the wait.
func (p *pool) slotsNow() int {
	if p.space == nil || p.fleet == nil {
		return p.parallel
	}
	_, n := p.fleetSlots.now()
	return min(p.parallel, max(n, 1))
}

// guardPause is how long there is between two looks at the machine.
const guardPause = 2 * time.Second

// watchMachine follows what the machine has left until ctx ends, if there are guards. What it finds becomes a
// record, from which the limit learns.
func (p *pool) watchMachine(ctx context.Context) error {
	j, guards := p.owner, p.workflow.Map.Guards
	if !guards.Any() {
		return nil
	}
	if j.config.OnFleet { // workers look at their machines; here the log is written
		guards = limit.Guards{MinFreeDisk: guards.MinFreeDisk}
	}
	look := func(was bool) (string, error) {
		measure := j.config.Machine
		if measure == nil {
			measure = func() (limit.Machine, error) { return limit.MachineNow(j.config.Dir, j.place.EventsDir()) }
		}
		now, err := measure()
		return guards.Closed(now, was), err
	}
	first, err := look(false)
	if err != nil {
		return fmt.Errorf("guards: %w", err)
	}
	if first != "" {
		j.Record(p.gates.guards.Found(first))
	}
	j.agents.Go(func() error {
		for last := first; duration.Sleep(ctx, guardPause) == nil; {
			short, err := look(last != "")
			if err != nil || (short == "") == (last == "") {
				continue // what cannot be measured now closes nothing and opens nothing
			}
			last = short
			select {
			case j.inbox <- emitted{event: p.gates.guards.Found(short)}:
			case <-ctx.Done():
				return nil
			}
		}
		return nil
	})
	return nil
}
