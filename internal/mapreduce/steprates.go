package mapreduce

import (
	"time"

	"prodigy/internal/check"
	"prodigy/internal/events"
)

// askTurn has an agent wait for the turn of a step. It leaves its slot to others if it has to wait, unless so
// many wait already.
func (p *pool) askTurn(k *parking) {
	if p.steps == nil {
		p.steps = stepQueues{}
	}
	q := p.steps[k.step.Position]
	if q == nil {
		q = &lanes[string, *parking]{}
		p.steps[k.step.Position] = q
	}
	now := time.Now()
	next := p.Limits.Steps[k.step.Position].Next(k.step.Key, now)
	if !k.keeps && (q.has(k.step.Key) || next.After(now)) && p.waits() < maxParked {
		p.leaveSlot(k)
		p.stepsParked++
	} else {
		k.keeps = true
	}
	if k.step.Late > 0 {
		q.addFirst(k.step.Key, k)
	} else {
		q.add(k.step.Key, k)
	}
}

// serveSteps gives their turns to agents that have kept their slots, and with a free slot to one that has not.
// It reports whether it gave the slot away.
func (p *pool) serveSteps(now time.Time, vacant bool) bool {
	for position, q := range check.ByKey(p.steps) {
		for p.halted == nil {
			_, k, ok := q.next(now, p.Limits.Steps[position].Next)
			switch {
			case !ok:
				if q.len() > 0 && (vacant || q.order[0].queue[0].keeps) {
					p.soon(q.due())
				}
			case k.gone:
				q.pop()
				p.unparkStep(k)
				continue
			case k.keeps:
				q.pop()
				p.giveTurn(k, now)
				k.wake <- p.flights[k.token].slot
				continue
			case vacant:
				q.pop()
				p.unparkStep(k)
				p.giveTurn(k, now)
				p.goOn(k)
				return true
			}
			break
		}
	}
	return false
}

func (p *pool) unparkStep(k *parking) {
	if !k.keeps {
		p.stepsParked--
	}
}

// giveTurn records that a step has its turn.
func (p *pool) giveTurn(k *parking, now time.Time) {
	t := k.step
	e := events.StepTurn{ItemID: k.id, ItemIndex: k.index, Step: t.Step, Position: t.Position, Key: t.Key}
	if waited := now.Sub(k.asked); waited >= time.Millisecond {
		e.WaitedMS = events.Millis(waited)
	}
	p.Record(e)
}
