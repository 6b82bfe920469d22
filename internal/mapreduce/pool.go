package mapreduce

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/duration"
	"prodigy/internal/gitspace"
	"prodigy/internal/limit"
	"prodigy/internal/limits"
)

// pool is the map phase at work. All of it belongs to the goroutine of run; agents send it messages.
type pool struct {
	job      *owner
	template agent.Attempt // what all agents have in common
	source   source

	gates    gates             // what may hold back a start
	lobby    lobby             // what waits to start, or to go on
	suspects suspects          // what runs alone
	slots    slotsHeld         // what agents run in
	runners  runners           // the goroutines that run them
	flights  map[int64]*flight // attempts that have not ended, by their tokens; nil in a pool that is about no items
	watch    watch             // of stragglers

	submitter submitter // of a job on a fleet
	merger    merger    // of a job with workspaces

	single single  // of a pool that is about no items
	halted *Result // set when the pool stops before its end
	ending ending
}

// runners are the goroutines that run agents.
type runners struct {
	ctx     context.Context // ends when the agents are to be ended
	kill    context.CancelCauseFunc
	idle    chan task // of goroutines that wait for another attempt
	running int       // agents that have not ended
	syncing int       // agents that have ended and wait for the disk with their slot
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
	between bool        // it runs nothing, and only waits until the job is not paused any more
	end     *attemptEnd // of its one attempt
}

// ending is how a pool ends.
type ending struct {
	grace     <-chan time.Time
	cutOff    error // the run ends with it once all is done: what the source has given is not all there was
	fleetHeld bool  // the fleet knows that the job stops
}

// task is an attempt for a goroutine, and what ends it.
type task struct {
	ctx     context.Context
	attempt agent.Attempt
}

// submitter gives attempts to the fleet, each of its goroutines some at a time. An attempt that starts is held
// as a whole until the fleet has it, and all that may be out, tens of thousands, may start at once: so those
// for which there is no room start a little later.
type submitter struct {
	mu      sync.Mutex
	waiting []agent.Attempt
	at      int           // goroutines at work
	missed  bool          // somebody was told that there is no room
	room    chan struct{} // gets a value when there is room again
}

// full reports whether nothing more is to start. Then there will be a value in room.
func (s *submitter) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missed = len(s.waiting) >= mostUnsent
	return s.missed
}

// next removes and returns attempts for one goroutine, as many as it has to take when others may still come to
// help it. It returns none when the goroutine is to end.
func (s *submitter) next() []agent.Attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		s.at--
		s.waiting = nil
		return nil
	}
	n := min(mostAtOnce, 1+len(s.waiting)/(mostSubmitters-s.at+1), len(s.waiting))
	some := slices.Clone(s.waiting[:n])
	s.waiting = slices.Delete(s.waiting, 0, n)
	if s.missed && len(s.waiting) < mostUnsent/2 {
		s.missed = false
		select {
		case s.room <- struct{}{}:
		default: // there is one already
		}
	}
	return some
}

// gates are the limits of a pool, in the groups and the order in which they are asked. The comment of package limits
// says what each holds back.
type gates struct {
	all  []limits.Limit // of everything
	slot []limits.Limit // of what needs a slot
	turn []limits.Limit // of what begins, but for those by key

	paces []limits.Limit // of turn: the limits in time that all starts share

	windows *limits.Windows
	guards  *limits.Guards
	rollout *limits.Stages
	first   limits.First
}

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
	queue   ordered[mergeable]
	busy    bool            // the goroutine is at work
	last    int             // index of the last new item that the source gave
	publish *published      // what has been recorded, but not yet been told to the Space
	backlog bool            // what an earlier run has left is merged before anything starts
	batch   []gitspace.Work // that the goroutine works on
	slots   map[int]int     // in which work has ended that is not merged, by the index of its item: they are held
}

// published is head, and the work that is settled by it.
type published struct {
	seq     int64 // of the record
	head    string
	settled []gitspace.Work
}

// slotsHeld are the slots that the agents of a pool run in.
type slotsHeld struct {
	free   []int       // slots nobody holds, the next one last
	taken  map[int]int // slots that are held: by how many, an attempt and work that ended there and is not merged
	seeker seeker      // of a job that shares the slots of a pool
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
	found  chan foundSlot // of the one that asks; nil if nobody asks
	cancel context.CancelFunc
	slot   *limit.SharedSlot // found, and not taken yet
	idle   time.Time         // it was of no use: not asked again before
	told   bool              // that the job waits
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
	index  int
	number int
	slot   int      // 0 while it is parked
	waits  *parking // by which it gets a slot again; nil if it is not parked
	keys   itemKeys
	end    context.CancelCauseFunc // stops it alone
	placed bool                    // it is known to have begun; of one on a fleet that comes later
	began  time.Time               // when it began, or went on after it had left its slot
	slow   *stragglerError         // that stops it
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

// stragglerError stops an attempt that takes too long.
type stragglerError struct{ limit time.Duration }

func (e *stragglerError) Error() string {
	return "the agent timed out as a straggler, after " + duration.Format(e.limit.Round(10*time.Millisecond))
}

// suspects are the items of a pool that run alone.
type suspects struct {
	waiting []dueItem // until all others are done
	alone   bool      // all others are done: one suspect at a time
	pause   time.Time // nothing starts before, so that a suspect runs alone; zero if no pause has begun

	lone []dueItem // items that may be what killed workers: one of them is out at a time
	out  int       // the index of that one, or -1
}

// count returns how many of those that wait are suspects, and not items that run alone for lack of memory.
func (s *suspects) count(j *owner) (n int) {
	for _, d := range s.waiting {
		if j.suspect(d.index) {
			n++
		}
	}
	return n
}

// ended notes that an item is not out any more.
func (s *suspects) ended(index int) {
	if index == s.out {
		s.out = -1
	}
}
