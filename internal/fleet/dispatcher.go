package fleet

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Dispatcher decides which worker gets an attempt, and which attempts are lost. It knows the attempts that are out and
// the workers that take part. It has no clock, and is not safe for concurrent use.
//
// Workers offer slots in rounds: an attempt that is given to a worker in a round that the worker has closed is refused
// by it. So when a worker lists all that it holds after it has closed the round of an attempt, and the attempt is not
// among them, it will never run it.
type Dispatcher struct {
	Lease time.Duration
	Every time.Duration // how often workers say what they hold

	flights map[int64]*flight
	workers map[string]*workerState
	queue   []int64        // attempts that wait for a worker; some may have ended since
	ready   []*workerState // that have offered more than they were given

	zero     time.Time // when the dispatcher was made
	began    time.Time
	adopted  int             // attempts that the run before gave out, nobody knows to whom
	expected map[string]bool // instances that may have those, and have not said so yet
	unsure   bool            // others may have them too

	workerCount, slotCount int // see Slots
}

type flight struct {
	token   int64
	at      *workerState  // whom it was given to, if somebody, as far as is known
	round   int64         // in which it was
	given   time.Duration // when it was, after Dispatcher.zero
	times   int           // how often it was given out to workers that were connected
	adopted bool          // nobody knows whom the run before gave it to
	ranOn   string        // with adopted: the worker that ran it then, unless it may not have begun
	arrived bool          // its worker has listed it: it is never given out again
	began   bool          // its worker has reported something of it
	missing bool          // its worker has it no more, and has not said how it ended
	left    bool          // it has ended, and its worker has left the report with the broker
	last    int           // index of the last report that counted, or -1 if the run before may have taken some
	whole   int           // index of the last of them that is no piece, or comes last of its pieces
	work    work          // what its coordinator is doing with it
}

// work is what a coordinator does with an attempt beside what it is told of it.
type work int8

const (
	waits  work = iota // nothing
	relays             // it passes on what happened inside it
	ends               // it is about to end it, when what it has produced is here
)

// workerState is what the dispatcher knows of a worker.
type workerState struct {
	instance, node string
	lastHeard      time.Time
	round          int64
	credit, given  int64 // attempts of this round that it takes, and that it was given
	slots          int   // that it has; none when it takes no more
	queued         bool  // it is among the ready
	told           bool  // Silent has named it
	flights        map[int64]*flight
}

// Assignment is an attempt that a worker is given.
type Assignment struct {
	Token    int64
	Instance string
	Round    int64
	Times    int // how often it was given out, with this
}

// Loss is an attempt whose worker is lost.
type Loss struct {
	Token int64
	Node  string // name of the worker, if it is known
	Began bool   // it had begun, and may have been what its worker was lost by
	Left  bool   // it has ended, and the broker has lost the report

	Missing bool // its worker is well, and has it no more
}

// NewDispatcher returns an empty dispatcher of a coordinator that begins now.
func NewDispatcher(lease, every time.Duration, now time.Time) *Dispatcher {
	return &Dispatcher{
		Lease: lease, Every: every, flights: map[int64]*flight{}, workers: map[string]*workerState{},
		expected: map[string]bool{}, zero: now, began: now,
	}
}

// Expect says which instances may hold attempts that the run before gave out. With others there may be more that nobody
// knows of.
func (d *Dispatcher) Expect(instances []string, others bool, now time.Time) {
	d.unsure, d.began = others, now
	for _, name := range instances {
		d.expected[name] = true
	}
}

// Add enters an attempt that is to be given out.
func (d *Dispatcher) Add(token int64) {
	d.flights[token] = &flight{token: token}
	d.queue = append(d.queue, token)
}

// Adopt enters an attempt that the run before may have given out. ranOn is the worker that ran it then; empty if it may
// not have begun. Which of its reports that run has taken, nobody knows.
func (d *Dispatcher) Adopt(token int64, ranOn string) {
	d.flights[token] = &flight{token: token, adopted: true, ranOn: ranOn, last: -1, whole: -1}
	d.adopted++
}

// Waits reports whether an attempt is out that no worker was given.
func (d *Dispatcher) Waits(token int64) bool {
	f := d.flights[token]
	return f != nil && f.at == nil && !f.adopted && f.work != ends
}

// HolderOf returns the instance that an attempt was given to, or "" if none was or nobody knows.
func (d *Dispatcher) HolderOf(token int64) string {
	if f := d.flights[token]; f != nil && f.at != nil {
		return f.at.instance
	}
	return ""
}

// Held returns the tokens of the attempts that an instance was given.
func (d *Dispatcher) Held(instance string) []int64 {
	s := d.workers[instance]
	if s == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.flights))
}

// Remove removes an attempt and returns its holder. It reports false if there is none with this token: what is reported
// of it counts no more.
func (d *Dispatcher) Remove(token int64) (Holder, bool) {
	f, ok := d.flights[token]
	if !ok {
		return Holder{}, false
	}
	delete(d.flights, token)
	if f.adopted {
		d.adopted--
	}
	if f.at == nil {
		return Holder{}, true
	}
	delete(f.at.flights, token)
	return Holder{Instance: f.at.instance, Node: f.at.node}, true
}

// Reported notes that a worker has reported something of an attempt. It reports false if that does not count: the
// attempt is not out, or it is another worker's.
func (d *Dispatcher) Reported(token int64, who Holder, now time.Time) bool {
	f, ok := d.flights[token]
	if !ok || !f.mayBeOf(who.Instance, who.Node) {
		return false
	}
	if f.at == nil {
		d.bind(f, d.worker(who.Instance, who.Node, now))
	}
	f.arrived, f.began, f.at.lastHeard = true, true, now
	return true
}

// mayBeOf reports whether a worker has an attempt, or may have been given it by the run before.
func (f *flight) mayBeOf(instance, node string) bool {
	if f.at != nil {
		return f.at.instance == instance
	}
	return f.adopted && (f.ranOn == "" || f.ranOn == node)
}

// Len is the number of attempts that are out.
func (d *Dispatcher) Len() int { return len(d.flights) }

// NoWorkers reports whether attempts are out and there is no worker that takes part.
func (d *Dispatcher) NoWorkers() bool { return len(d.flights) > 0 && len(d.workers) == 0 }

// Knows reports whether a worker takes part, or has gone and had attempts that are out.
func (d *Dispatcher) Knows(instance string) bool { return d.workers[instance] != nil }

func (d *Dispatcher) worker(instance, node string, now time.Time) *workerState {
	s := d.workers[instance]
	if s == nil {
		s = &workerState{instance: instance, flights: map[int64]*flight{}, lastHeard: now}
		d.workers[instance] = s
	}
	s.node = node
	return s
}

// bind notes who has an attempt that the run before gave out.
func (d *Dispatcher) bind(f *flight, s *workerState) {
	f.at, f.adopted, f.arrived, f.began, f.missing, f.round = s, false, true, true, false, s.round
	s.flights[f.token] = f
	d.adopted--
}

// Update takes the status of a worker. It returns the attempts that the worker holds and is to end (over), and whether
// something that it was given has not arrived (again): then it is to close the round and list what it holds.
func (d *Dispatcher) Update(w WorkerStatus, now time.Time) (over []int64, again bool) {
	s := d.worker(w.Instance, w.Node, now)
	s.lastHeard = now
	if w.Round > s.round {
		s.round, s.credit, s.given = w.Round, 0, 0
	}
	if w.Round == s.round {
		s.credit = max(s.credit, w.Credit)
	}
	d.setSlots(s, w.Slots)
	if w.Full {
		over, again = d.reconcile(s, w, now)
		delete(d.expected, w.Instance)
	}
	if !s.queued && s.given < s.credit {
		s.queued = true
		d.ready = append(d.ready, s)
	}
	if w.Gone { // it is forgotten when nothing of it is out: what is, is lost after a lease
		d.setSlots(s, 0)
		delete(d.expected, s.instance)
		if len(s.flights) == 0 {
			d.forget(s)
		}
	}
	d.releaseAdopted()
	return over, again
}

// setSlots notes how many slots a worker has.
func (d *Dispatcher) setSlots(s *workerState, slots int) {
	d.slotCount += slots - s.slots
	if s.slots > 0 {
		d.workerCount--
	}
	if s.slots = slots; slots > 0 {
		d.workerCount++
	}
}

// Slots returns how many workers take part, and how many slots they have together.
func (d *Dispatcher) Slots() (workers, slots int) { return d.workerCount, d.slotCount }

// reconcile compares all that a worker has with what it should have.
func (d *Dispatcher) reconcile(s *workerState, w WorkerStatus, now time.Time) (over []int64, again bool) {
	if w.Round < s.round {
		return nil, false // it has said more since
	}
	has := make(map[int64]bool, len(w.Holds))
	for _, token := range w.Holds {
		has[token] = true
		f := d.flights[token]
		switch {
		case f == nil, !f.mayBeOf(s.instance, s.node):
			over = append(over, token)
		case f.adopted:
			d.bind(f, s)
		default:
			f.arrived, f.missing = true, false
		}
	}
	for _, token := range w.Left {
		if f := d.flights[token]; f != nil && f.at == s {
			f.left = true
		}
	}
	var back []int64
	for token, f := range s.flights {
		switch {
		case has[token]:
		case f.round < w.Round && f.arrived:
			f.missing = true
		case f.round < w.Round: // it never arrived, and is refused if it does
			back = append(back, token)
		case now.Sub(d.zero)-f.given > 2*d.Every:
			again = true
		}
	}
	slices.Sort(back)
	for _, token := range back {
		d.flights[token].at = nil
		delete(s.flights, token)
	}
	d.queue = append(back, d.queue...)
	return over, again
}

func (d *Dispatcher) forget(s *workerState) {
	s.credit = s.given
	d.setSlots(s, 0)
	delete(d.workers, s.instance)
}

// releaseAdopted queues the adopted attempts, once all workers that might have had them have said what they hold.
// Those that had begun are lost.
func (d *Dispatcher) releaseAdopted() {
	if d.adopted == 0 || d.unsure || len(d.expected) > 0 {
		return
	}
	var free []int64
	for token, f := range d.flights {
		switch {
		case !f.adopted:
		case f.ranOn != "":
			f.missing = true
		default:
			f.adopted = false
			d.adopted--
			free = append(free, token)
		}
	}
	slices.Sort(free)
	d.queue = append(free, d.queue...)
}

// Assign gives attempts that wait to workers that have offered to take some, one at a time to each in turn.
func (d *Dispatcher) Assign(now time.Time) []Assignment {
	var assigned []Assignment
	for len(d.ready) > 0 {
		s := d.ready[0]
		if s.given >= s.credit || d.silentFor(s, now) > 0 { // it is put there again when it is heard of
			d.ready = d.ready[1:]
			s.queued = false
			continue
		}
		f := d.next()
		if f == nil {
			break
		}
		d.ready = append(d.ready[1:], s)
		s.given++
		f.at, f.round, f.given = s, s.round, now.Sub(d.zero)
		f.times++
		s.flights[f.token] = f
		assigned = append(assigned, Assignment{f.token, s.instance, s.round, f.times})
	}
	return assigned
}

// next removes and returns the attempt that has waited longest, or nil.
func (d *Dispatcher) next() *flight {
	for len(d.queue) > 0 {
		token := d.queue[0]
		d.queue = d.queue[1:]
		if d.Waits(token) {
			return d.flights[token]
		}
	}
	d.queue = nil
	return nil
}

// RestartLeases has all leases begin now: the coordinator could not hear anybody until now.
func (d *Dispatcher) RestartLeases(now time.Time) {
	for _, s := range d.workers {
		s.lastHeard = now
	}
	d.began = now
}

// missedBeats is how often a worker says nothing when it should before it is taken to be silent, and given nothing.
const missedBeats = 3

// silentFor returns how long a worker has been silent, or 0 if it is heard of.
func (d *Dispatcher) silentFor(s *workerState, now time.Time) time.Duration {
	if ago := now.Sub(s.lastHeard); ago > missedBeats*d.Every {
		return ago
	}
	return 0
}

// Silence is the silence of a worker that is not lost yet.
type Silence struct {
	Node  string
	For   time.Duration
	Holds int // attempts that it was given, and that are lost after the lease
}

// Silent returns the workers that have missed some beats, by their names, each once until it is heard of again.
func (d *Dispatcher) Silent(now time.Time) []Silence {
	var silent []Silence
	for _, s := range d.workers {
		ago := d.silentFor(s, now)
		if ago > 0 && ago < d.Lease && !s.told {
			silent = append(silent, Silence{s.node, ago, len(s.flights)})
		}
		s.told = ago > 0
	}
	slices.SortFunc(silent, func(a, b Silence) int { return cmp.Compare(a.Node, b.Node) })
	return silent
}

// Lost returns the attempts of workers that have not been heard of for a lease, those whose reports only the broker
// has, and those that their workers have no more, in order. They are lost, unless there are reports of them that have
// not been read.
func (d *Dispatcher) Lost(now time.Time) []Loss {
	var lost []Loss
	for _, s := range d.workers {
		silent := now.Sub(s.lastHeard) >= d.Lease
		for token, f := range s.flights {
			switch {
			case silent || f.left:
				lost = append(lost, Loss{Token: token, Node: s.node, Began: f.began && !f.left, Left: f.left})
			case f.missing:
				lost = append(lost, Loss{Token: token, Node: s.node, Began: true, Missing: true})
			}
		}
		if !silent {
			continue
		}
		d.setSlots(s, 0)
		if len(s.flights) == 0 {
			d.forget(s)
		}
	}
	if d.adopted > 0 {
		unclaimed := now.Sub(d.began) >= d.Lease
		for token, f := range d.flights {
			if f.adopted && (unclaimed || f.missing) {
				lost = append(lost, Loss{Token: token, Node: f.ranOn, Began: f.ranOn != "", Missing: f.missing})
			}
		}
	}
	slices.SortFunc(lost, func(a, b Loss) int { return cmp.Compare(a.Token, b.Token) })
	return lost
}

// Unassigned returns the attempts that no worker was given, in order.
func (d *Dispatcher) Unassigned() []int64 {
	all := slices.Sorted(maps.Keys(d.flights))
	return slices.DeleteFunc(all, func(token int64) bool { return !d.Waits(token) })
}
