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
	if rate == nil && breaker == nil {
		return lobby{}, nil
	}
	b := byKey{rateKey: rate != nil, full: map[string][]itemKeys{}, gone: map[int]bool{}}
	b.keysOf = func(id string, item json.RawMessage) (k itemKeys) {
		if rate != nil {
			k.rate = rate(id, item)
		}
		if breaker != nil {
			k.breaker = cmp.Or(breaker(id, item), noKey)
		}
		return k
	}
	return lobby{byKey: b}, nil
}

// mostSleep is how long the pool sleeps at most: what is due by the wall clock comes earlier than it seemed
// when that is set forward, and is asked for again when it is set back.
const mostSleep = time.Minute

// sameSlot answers an agent that it had better wait in its slot, since so many wait already.
const sameSlot = -1

// maxParked bounds the agents that wait outside the slots: each is a goroutine with its variables.
const maxParked = 1024

// before puts the agent first that is due first.
func (k *parking) Before(l *parking) bool { return k.due.Before(l.due) }

// park takes the slot of an agent that waits, unless too many wait already.
func (p *pool) park(k *parking) {
	if p.lobby.waits() >= maxParked {
		k.wake <- sameSlot
		return
	}
	p.leaveSlot(k)
	p.lobby.parked.push(k)
}

// unpark removes an agent that ended while it was parked, because of a timeout. One on a fleet may be parked
// more than once: its pause may not be over here when its worker has gone on and asks for something else.
func (p *pool) unpark(token int64) {
	before := len(p.lobby.parked)
	p.lobby.parked = slices.DeleteFunc(p.lobby.parked, func(k *parking) bool { return k.token == token })
	if len(p.lobby.parked) < before {
		heap.Init(&p.lobby.parked)
	}
}

// wake gives a free slot to the agent that has been due longest. It returns false when none is due.
func (p *pool) wake(now time.Time) bool {
	if len(p.lobby.parked) == 0 || p.lobby.parked[0].due.After(now) {
		return p.wakeInTurn(now)
	}
	k := p.lobby.parked.pop()
	if k.turn && p.job.Fold.Limits.TakesTurns() {
		p.lobby.woken.add(p.flights[k.token].keys.rate, k)
		return true
	}
	p.goOn(k)
	return true
}

// goOn has a parked agent go on in a free slot. One that waits for something else since then gets its slot with that.
func (p *pool) goOn(k *parking) {
	f := p.flights[k.token]
	if f.waits != k {
		k.wake <- sameSlot
		return
	}
	f.slot, f.waits, f.began = p.takeSlot(), nil, time.Now()
	k.wake <- f.slot
}

// leaveSlot frees the slot of an agent that waits.
func (p *pool) leaveSlot(k *parking) {
	f := p.flights[k.token]
	if f.waits == nil || f.waits.step == nil { // else this was said before it asked for the turn of a step, and comes after that
		f.waits = k
	}
	p.freeSlot(f.slot)
	f.slot = 0
}
