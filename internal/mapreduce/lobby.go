package mapreduce

import (
	"cmp"
	"container/heap"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// newLobby returns an empty lobby with what the workflow says about keys.
func (j *owner) newLobby() (lobby, error) {
	rate, err := j.keyOf(j.workflow.Map.Rate.Per)
	if err != nil {
		return lobby{}, fmt.Errorf("rate: %w", err)
	}
	breaker, err := j.keyOf(j.workflow.BreakerPer)
	if err != nil {
		return lobby{}, fmt.Errorf("circuit_breaker: %w", err)
	}
	b := byKey{rateKey: rate != nil, full: map[string][]itemKeys{}, gone: map[int]bool{}}
	if rate != nil || breaker != nil {
		b.keysOf = func(id string, item json.RawMessage) (k itemKeys) {
			if rate != nil {
				k.rate = rate(id, item)
			}
			if breaker != nil {
				k.breaker = cmp.Or(breaker(id, item), noKey)
			}
			return k
		}
	}
	return lobby{byKey: b}, nil
}

// mostSleep is how long the pool sleeps at most: what is due by the wall clock comes earlier than it seemed
// when that is set forward, and is asked for again when it is set back.
const mostSleep = time.Minute

// before puts the agent first that is due first.
func (k *parking) Before(l *parking) bool { return k.due.Before(l.due) }

// deliver has an agent wait, and takes its slot for that if it does not keep it, unless too many wait already.
func (k *parking) deliver(p *pool) {
	if k.forEnd && p.host.starts.ends.Load() != k.ends { // one ended while this was on its way here
		k.dueInOrder(time.Now())
	}
	switch {
	case k.id != "" && p.flights[k.token] == nil:
		// It has ended: what a worker says of an attempt and the end of it come by different ways.
		k.wake <- k.slot
	case k.step != nil:
		p.askTurn(k)
	case k.keeps || p.waits() >= maxParked:
		p.resting.push(k)
	default:
		p.leaveSlot(k)
		p.parked.push(k)
	}
}

// wakeResting wakes the agents that are due in their slots, or has them ask for their turns.
func (p *pool) wakeResting(now time.Time) {
	for len(p.resting) > 0 {
		if due := p.resting[0].due; due.After(now) {
			p.soon(due)
			return
		}
		k := p.resting.pop()
		if f := p.flights[k.token]; k.turn && f != nil && p.Limits.TakesTurns() {
			p.asking.add(f.keys.rate, k)
			continue
		}
		k.wake <- k.slot
	}
}

// agentEnded has those that wait for the end of an agent ask again.
func (p *pool) agentEnded(now time.Time) {
	for _, k := range slices.Concat(p.resting, p.parked) {
		if k.forEnd {
			k.dueInOrder(now)
		}
	}
	heap.Init(&p.parked)
	heap.Init(&p.resting)
}

// unpark removes an agent that ended while it was parked, because of a timeout. One on a fleet may be parked
// more than once: its pause may not be over here when its worker has gone on and asks for something else.
func (p *pool) unpark(token int64) {
	before := len(p.parked)
	p.parked = slices.DeleteFunc(p.parked, func(k *parking) bool { return k.token == token })
	if len(p.parked) < before {
		heap.Init(&p.parked)
	}
}

// hasReady reports whether something may be there to start in a shared slot.
func (p *pool) hasReady(now time.Time) bool {
	return p.fresh != nil || p.hasDue(now) && !p.retriesWait ||
		len(p.parked) > 0 && !p.parked[0].due.After(now) || p.woken.len() > 0 || p.starts.len() > 0
}

// turnTaken ends the wait for a turn.
func (p *pool) turnTaken() {
	if p.since.IsZero() {
		return
	}
	if p.config.RateWaited != nil {
		p.config.RateWaited(time.Since(p.since))
	}
	p.since = time.Time{}
}
