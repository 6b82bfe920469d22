package mapreduce

import (
	"cmp"
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/gitspace"
	"prodigy/internal/items"
	"prodigy/internal/limit"
	"prodigy/internal/limits"
)

// pool is the map phase at work, with the owner of the job. All of it belongs to the goroutine of run; agents send it
// messages.
type pool struct {
	*owner

	// template is what all agents have in common.
	template agent.Attempt
	source   source

	lobby // what waits to start, or to go on

	gates    gates     // what may hold back a start
	suspects suspects  // what runs alone
	slots    slotsHeld // what agents run in
	runners  runners   // the goroutines that run them

	// flights are the attempts that have not ended, by their tokens. It is nil in a pool that is about no items.
	flights map[int64]*flight
	watch   watch

	submitter submitter // of a job on a fleet
	merger    merger    // of a job with workspaces
	single    single    // of a pool that is about no items

	// halted is how the run ends. It is set when the pool stops before its end: then nothing starts any more.
	halted *Result
	ending ending
}

// message is what another goroutine has to say to the owner of the job, which calls deliver. Messages are the only way
// in which agents, the merger and whoever watches the machine change what the owner has. Each kind stands in the file
// of what it is about.
type message interface{ deliver(p *pool) }

// runners are the goroutines that run agents.
type runners struct {
	// ctx ends when the agents are to be ended, by kill.
	ctx  context.Context
	kill context.CancelCauseFunc

	// idle is received from by goroutines that wait for another attempt. They end when it is closed.
	idle chan task

	// running is the number of agents that have not ended.
	running int

	// syncing is the number of agents that have ended and wait for the disk with their slot.
	syncing int
}

func newRunners(ctx context.Context) runners {
	c := runners{idle: make(chan task)}
	c.ctx, c.kill = context.WithCancelCause(ctx)
	return c
}

// busy reports whether an agent is at work, or its slot not free yet.
func (c *runners) busy() bool { return c.running > 0 || c.syncing > 0 }

// single is what a pool has that is about no items.
type single struct {
	// between means that the pool runs nothing, and only waits until the job is not paused any more.
	between bool

	// end is that of the one attempt, once it has ended.
	end *attemptEnd
}

// ending is how a pool ends.
type ending struct {
	// grace gets a value when running agents have had their time to finish. It is nil before the pool stops, and
	// while it lets them come to their end.
	grace <-chan time.Time

	// cutOff is the error with which the run ends once all is done. It is set if what the source has given is not all
	// there was.
	cutOff error

	// fleetHeld means that the fleet knows that the job stops.
	fleetHeld bool
}

// task is an attempt for a goroutine, and what ends it.
type task struct {
	ctx     context.Context
	attempt agent.Attempt
}

// submitter counts the attempts on their way to the fleet. Each is held as a whole until the fleet has it, and all that
// may be out, tens of thousands, may start at once: so those for which there is no room start a little later.
type submitter struct {
	n atomic.Int32

	// room gets a value when there is room again. It has room for one itself.
	room chan struct{}
}

// mostUnsent is how many attempts may be on their way to the fleet.
const mostUnsent = 64

// gates are the limits of a pool, in the groups and the order in which they are asked. The comment of package limits
// says what each holds back.
type gates struct {
	all  []limits.Limit // of everything
	slot []limits.Limit // of what needs a slot

	// paces are the limits in time that all starts share. Besides them admitNext asks first, the retry ratio, the breaker,
	// and what has keys.
	paces []limits.Limit

	windows *limits.Windows
	guards  *limits.Guards
	rollout *limits.Stages
	first   limits.First
}

// lobby is where everything waits that is to start, or to go on. Nothing of it has a slot but what asks from
// within one.
type lobby struct {
	// fresh is the next new item. It is nil until that has been received.
	fresh *offered

	// due are the items that wait for their next attempt.
	due ordered[dueItem]

	// parked are the agents that wait outside of their slots, and resting those that wait in them.
	parked, resting ordered[*parking]

	// woken are agents whose wait for the next try of a step is over, by the key of their rate. Those in asking have
	// kept their slots.
	woken, asking lanes[string, *parking]

	// steps are agents that wait for the turns of steps. Of them stepsParked have no slot.
	steps       stepQueues
	stepsParked int

	byKey // items that wait for the turns of their keys

	// next is when something may start that could not in this round, if nothing happens before. Zero means that
	// nothing may.
	next time.Time

	// since is from when on a slot has been free for what waits for its turn. Zero means that nothing waits.
	since time.Time

	// rated means that a rate has held something back in this round, and retriesWait that the retry ratio has.
	rated, retriesWait bool
}

// byKey are the items that wait for their turn, by their keys.
type byKey struct {
	// keysOf is nil if all items have the same keys.
	keysOf func(id string, item json.RawMessage) itemKeys

	// rateKey means that each key has a rate of its own.
	rateKey bool

	// starts has the items that wait for their turn, without their data, which their agents read.
	starts lanes[itemKeys, offered]

	// full has keys in starts, by the key of a breaker that waits for the outcomes of its tests.
	full map[string][]itemKeys

	// retries is the number of items in starts that follow a failure, and again of those that have begun before.
	retries, again int

	// gone are the items in starts that were settled meanwhile, by their indexes.
	gone map[int]bool
}

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

// hasDue reports whether the next attempt at an item is due.
func (l *lobby) hasDue(now time.Time) bool { return len(l.due) > 0 && !l.due[0].due.After(now) }

// waits returns how many agents have left their slots.
func (l *lobby) waits() int { return len(l.parked) + l.woken.len() + l.stepsParked }

// forget removes an agent that has ended, should it wait.
func (l *lobby) forget(token int64) {
	queues := []*lanes[string, *parking]{&l.woken, &l.asking}
	for _, q := range l.steps {
		queues = append(queues, q)
	}
	for _, q := range queues {
		for k := range q.all() {
			if k.token == token {
				k.gone = true
			}
		}
	}
}

// keys returns the keys of an item with its data.
func (b *byKey) keys(it items.Item) (k itemKeys) {
	if b.keysOf != nil {
		k = b.keysOf(it.ID, it.Data)
	}
	return k
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

// Before puts the item first that is due first; of two due at once, the one selected first.
func (d dueItem) Before(e dueItem) bool {
	return cmp.Or(d.due.Compare(e.due), cmp.Compare(d.index, e.index)) < 0
}

// mergeable is an item in the merge queue.
type mergeable struct {
	turn  int64 // what is lower is merged first
	index int
}

// Before puts the item first whose turn it is.
func (m mergeable) Before(n mergeable) bool { return m.turn < n.turn }

// merger is the merge queue of a pool at work.
type merger struct {
	queue ordered[mergeable]

	// busy means that the goroutine is at work, on batch.
	busy  bool
	batch []gitspace.Work

	// last is the index of the last new item that the source gave, or -1.
	last int

	// publish has been recorded, but not yet been told to the Space.
	publish *published

	// backlog means that what an earlier run has left is merged before anything starts.
	backlog bool

	// slots are those in which work has ended that is not merged, by the index of its item. They are held.
	slots map[int]int
}

// published is head, and the work that is settled by it.
type published struct {
	seq     int64 // of the record
	head    string
	settled []gitspace.Work
}

// slotsHeld are the slots that the agents of a pool run in.
type slotsHeld struct {
	// free are the slots that nobody holds, the next one last.
	free []int

	// taken is by how many each other slot is held: by an attempt, and by work that ended there and is not merged.
	taken map[int]int

	// seeker is that of a job that shares the slots of a pool.
	seeker seeker
}

// resize changes the number of slots. Slots beyond it that are taken go when they are given back.
func (s *slotsHeld) resize(n int) {
	s.free = s.free[:0]
	for slot := n; slot > 0; slot-- {
		if s.taken[slot] == 0 {
			s.free = append(s.free, slot)
		}
	}
}

// seeker asks for shared slots, one at a time, when there is something to start in them.
type seeker struct {
	// found is where the goroutine that asks puts what it has found, unless it is cancelled. It is nil if nobody asks.
	found  chan foundSlot
	cancel context.CancelFunc

	// slot has been found, and is not taken yet.
	slot *limit.SharedSlot

	// idle is until when nobody asks again, since the last slot was of no use.
	idle time.Time

	// told means that people know that the job waits.
	told bool
}

type foundSlot struct {
	slot *limit.SharedSlot
	err  error
}

// endSeeking gives up to ask for a shared slot, and gives back what was found.
func (s *slotsHeld) endSeeking() {
	k := &s.seeker
	if k.found != nil {
		k.cancel()
		if f := <-k.found; f.slot != nil {
			_ = f.slot.Release()
		}
	}
	if k.slot != nil {
		_ = k.slot.Release()
	}
}

// stepQueues are the agents that wait for the turns of steps, by the position of the step.
type stepQueues map[int]*lanes[string, *parking]

// flight is an attempt of a pool that has not ended, or whose end the pool has not heard of.
type flight struct {
	index int // of its item
	keys  itemKeys

	// slot is 0 while the attempt is parked. Then waits is how it gets one again.
	slot  int
	waits *parking

	// end stops the attempt alone.
	end context.CancelCauseFunc

	// placed means that the attempt is known to have begun. On a fleet that comes later.
	placed bool

	// began is when the attempt began, or went on after it had left its slot.
	began time.Time

	// slow is the cause of its end if the attempt is stopped as a straggler.
	slow error
}

// watch are the stragglers of a pool.
type watch struct {
	clocks ordered[clock] // of the attempts that are no stragglers yet
}

// clock is when an attempt began, as far as that is known.
type clock struct {
	since time.Time
	token int64
}

// Before puts the attempt first that has run longest.
func (c clock) Before(d clock) bool { return c.since.Before(d.since) }

// suspects are the items of a pool that run alone.
type suspects struct {
	// waiting are those that wait until all others are done.
	waiting []dueItem

	// alone means that all others are done: one suspect runs at a time.
	alone bool

	// pause is when the next suspect may start. Zero means that no pause has begun.
	pause time.Time

	// lone are items that may be what killed workers. One of them is out at a time: out is its index, or -1.
	lone []dueItem
	out  int
}

// ended notes that an item is not out any more.
func (s *suspects) ended(index int) {
	if index == s.out {
		s.out = -1
	}
}
