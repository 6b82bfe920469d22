package mapreduce

import (
	"cmp"
	"container/heap"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// lobby is where everything waits that is to start, or to go on. Nothing of it has a slot but what asks from
// within one.
type lobby struct {
	fresh  *offered          // the next new item, when it has been received
	due    ordered[dueItem]  // items that wait for their next attempt
	parked ordered[*parking] // agents that wait for the next try of a step

	// agents whose wait for the next try of a step is over, by the key of their rate
	woken       lanes[string, *parking]
	asking      lanes[string, *parking] // the same of those that have kept their slots
	steps       stepQueues              // agents that wait for the turns of steps
	stepsParked int                     // of them: without a slot

	byKey // items that wait for the turns of their keys

	// when something may start that could not in this round, if nothing happens before; zero if nothing may
	next        time.Time
	since       time.Time // from when on a slot has been free for what waits for its turn; zero if nothing waits
	rated       bool      // a rate has held something back in this round
	retriesWait bool      // the retry ratio has
}

// byKey are the items of a job with limits by key.
type byKey struct {
	keysOf  func(id string, item json.RawMessage) itemKeys // nil if all items have the same
	rateKey bool                                           // each key has a rate of its own
	starts  lanes[itemKeys, offered]                       // without their data, which their agents read
	// of those in starts, by the key of a breaker that waits for the outcomes of its tests
	full    map[string][]itemKeys
	retries int          // of items in starts that are tried again
	again   int          // of items in starts that have begun before
	gone    map[int]bool // items in starts that were settled meanwhile
}

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

// soon notes that something may start at a time, if that is sooner than what was noted in this round. The zero
// time is none.
func (l *lobby) soon(at time.Time) {
	if !at.IsZero() && at.Before(l.next) {
		l.next = at
	}
}

// soonDue notes when the next item or agent is due.
func (l *lobby) soonDue(now time.Time) {
	if len(l.due) > 0 && l.due[0].due.After(now) {
		l.soon(l.due[0].due)
	}
	if len(l.parked) > 0 && l.parked[0].due.After(now) {
		l.soon(l.parked[0].due)
	}
}

// arm sets the timer to the next moment at which something may start, as the last round has found it.
func (l *lobby) arm(t *time.Timer) {
	if l.next.IsZero() {
		t.Stop()
		return
	}
	t.Reset(time.Until(l.next))
}

// hasDue reports whether the next attempt at an item is due.
func (l *lobby) hasDue(now time.Time) bool { return len(l.due) > 0 && !l.due[0].due.After(now) }

// waits returns how many agents have left their slots.
func (l *lobby) waits() int { return len(l.parked) + l.woken.len() + l.stepsParked }

// retriesLeft reports whether retries wait for their turn.
func (l *lobby) retriesLeft(now time.Time) bool {
	return l.hasDue(now) || l.retries > 0 || l.woken.len() > 0 || l.asking.len() > 0
}

// forget removes an agent that has ended, should it wait.
func (l *lobby) forget(token int64) {
	for _, q := range []*lanes[string, *parking]{&l.woken, &l.asking} {
		for k := range q.all() {
			if k.token == token {
				k.gone = true
			}
		}
	}
	l.forgetSteps(token)
}

// popStart removes the item that starts.next has returned.
func (b *byKey) popStart(it offered) {
	b.starts.pop()
	if it.retry {
		b.retries--
	}
	if it.again {
		b.again--
	}
}

// dueItem is an item that waits for its next attempt. It holds no slot and no goroutine.
type dueItem struct {
	id    string
	index int
	due   time.Time
}

// before puts the item first that is due first; of two due at once, the one selected first.
func (d dueItem) before(e dueItem) bool {
	return cmp.Or(d.due.Compare(e.due), cmp.Compare(d.index, e.index)) < 0
}

// sameSlot answers an agent that it had better wait in its slot, since so many wait already.
const sameSlot = -1

// maxParked bounds the agents that wait outside the slots: each is a goroutine with its variables.
const maxParked = 1024

// before puts the agent first that is due first.
func (k *parking) before(l *parking) bool { return k.due.Before(l.due) }

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
