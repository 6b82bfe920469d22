package fleet

import (
	"slices"
	"time"
)

// Book is what a coordinator knows of the attempts that it has given out. It decides which worker gets one, and which are lost. It has no
// clock, and is not safe for concurrent use.
//
// Workers offer slots in rounds: an attempt that is given to a worker in a round that the worker has closed is refused by it. So when a worker
// lists all that it holds after it has closed the round of an attempt, and the attempt is not among them, it will never run it.
type Book struct {
	Lease time.Duration
	Every time.Duration // how often workers say what they hold

	flights  map[int64]*flight
	stations map[string]*station
	queue    []int64    // attempts that wait for a worker; some may have ended since
	ready    []*station // that have offered more than they were given

	began    time.Time
	adopted  int             // attempts that the run before gave out, nobody knows to whom
	expected map[string]bool // instances that may have those, and have not said so yet
	unsure   bool            // others may have them too
	died     bool            // some who may have had them are gone

	workers, slots int // see Slots
}

// Holder is a slot of a worker.
type Holder struct {
	Instance string `json:"instance"`
	Node     string `json:"node"`
	Slot     int    `json:"slot"`
}

type flight struct {
	token   int64
	at      *station // whom it was given to; nil: nobody, or nobody knows
	round   int64    // in which it was
	given   time.Time
	adopted bool // nobody knows whom the run before gave it to
	began   bool // its worker has reported something of it
	left    bool // it has ended, and its worker has left the report with the broker
}

// station is a worker.
type station struct {
	instance, node string
	heard          time.Time
	round          int64
	credit, given  int64 // attempts of this round that it takes, and that it was given
	slots          int   // that it has; 0: it takes no more
	queued         bool  // it is among the ready
	away           bool  // it was not connected in this round
	flights        map[int64]*flight
}

// Word is what a worker says of itself to a coordinator.
type Word struct {
	Instance string  `json:"instance"`
	Node     string  `json:"node"`            // name
	Round    int64   `json:"round"`           // of its offer
	Credit   int64   `json:"credit"`          // how many attempts it takes in this round, with those that it was given
	Slots    int     `json:"slots,omitempty"` // how many it has; 0: it takes no more
	Full     bool    `json:"full,omitempty"`  // Holds is all that it has been given and that is not settled
	Holds    []int64 `json:"holds,omitempty"` // tokens
	Left     []int64 `json:"left,omitempty"`  // those of Holds that have ended, and whose reports only the broker has
	After    string  `json:"after,omitempty"` // instance that it comes after, and whose commands it has ended
	Gone     bool    `json:"gone,omitempty"`  // it ends, and holds nothing
}

// Grant is an attempt that a worker is given.
type Grant struct {
	Token    int64
	Instance string
	Round    int64
}

// Loss is an attempt whose worker is lost.
type Loss struct {
	Token int64
	Node  string // name of the worker; empty: it is not known
	Began bool   // it had begun, and may have been what its worker was lost by
	Left  bool   // it has ended, and the broker has lost the report
}

// NewBook returns an empty book of a coordinator that begins now.
func NewBook(lease, every time.Duration, now time.Time) *Book {
	return &Book{Lease: lease, Every: every, flights: map[int64]*flight{}, stations: map[string]*station{}, expected: map[string]bool{}, began: now}
}

// Expect says which instances may hold attempts that the run before gave out. With others there may be more that nobody knows of.
func (b *Book) Expect(instances []string, others bool, now time.Time) {
	b.unsure, b.began = others, now
	for _, name := range instances {
		b.expected[name] = true
	}
}

// Add enters an attempt that is to be given out, or one that the run before may have given out.
func (b *Book) Add(token int64, adopted bool) {
	b.flights[token] = &flight{token: token, adopted: adopted}
	if adopted {
		b.adopted++
		return
	}
	b.queue = append(b.queue, token)
}

// End removes an attempt and returns its holder. It reports false if there is none with this token: what is reported of it counts no more.
func (b *Book) End(token int64) (Holder, bool) {
	f, ok := b.flights[token]
	if !ok {
		return Holder{}, false
	}
	delete(b.flights, token)
	if f.adopted {
		b.adopted--
	}
	if f.at == nil {
		return Holder{}, true
	}
	delete(f.at.flights, token)
	return Holder{Instance: f.at.instance, Node: f.at.node}, true
}

// Reported notes that a worker has reported something of an attempt. It reports false if that does not count: the attempt is not out, or it is
// another worker's.
func (b *Book) Reported(token int64, who Holder, now time.Time) bool {
	f, ok := b.flights[token]
	if !ok || f.at == nil && !f.adopted || f.at != nil && f.at.instance != who.Instance {
		return false
	}
	if f.at == nil {
		b.bind(f, b.station(who.Instance, who.Node, now))
	}
	f.began, f.at.heard = true, now
	return true
}

// Len is the number of attempts that are out.
func (b *Book) Len() int { return len(b.flights) }

// Deserted reports whether attempts are out and there is no worker that takes part.
func (b *Book) Deserted() bool { return len(b.flights) > 0 && len(b.stations) == 0 }

func (b *Book) station(instance, node string, now time.Time) *station {
	s := b.stations[instance]
	if s == nil {
		s = &station{instance: instance, flights: map[int64]*flight{}, heard: now}
		b.stations[instance] = s
	}
	s.node = node
	return s
}

// bind notes who has an attempt that the run before gave out.
func (b *Book) bind(f *flight, s *station) {
	f.at, f.adopted, f.began, f.round = s, false, true, s.round
	s.flights[f.token] = f
	b.adopted--
}

// Hear takes what a worker says. over are attempts that it has and is to end. again says that something that it was given has not arrived:
// it is to close the round and list what it has.
func (b *Book) Hear(w Word, now time.Time) (over []int64, again bool) {
	s := b.station(w.Instance, w.Node, now)
	s.heard = now
	if w.Round > s.round {
		s.round, s.credit, s.given, s.away = w.Round, 0, 0, false
	}
	if w.Round == s.round && !s.away {
		s.credit = max(s.credit, w.Credit)
	}
	b.has(s, w.Slots)
	if w.Full {
		over, again = b.list(s, w, now)
		delete(b.expected, w.Instance)
	}
	if w.After != "" {
		b.succeeded(w.After)
	}
	b.offered(s)
	if w.Gone {
		b.gone(s)
	}
	b.release()
	return over, again
}

// has notes how many slots a worker has.
func (b *Book) has(s *station, slots int) {
	b.slots += slots - s.slots
	if s.slots > 0 {
		b.workers--
	}
	if s.slots = slots; slots > 0 {
		b.workers++
	}
}

// Slots returns how many workers take part, and how many slots they have together.
func (b *Book) Slots() (workers, slots int) { return b.workers, b.slots }

// list compares all that a worker has with what it should have.
func (b *Book) list(s *station, w Word, now time.Time) (over []int64, again bool) {
	if w.Round < s.round {
		return nil, false // it has said more since
	}
	has := make(map[int64]bool, len(w.Holds))
	for _, token := range w.Holds {
		has[token] = true
		f := b.flights[token]
		switch {
		case f == nil, f.at != s && !f.adopted:
			over = append(over, token)
		case f.adopted:
			b.bind(f, s)
		}
	}
	for _, token := range w.Left {
		if f := b.flights[token]; f != nil && f.at == s {
			f.left = true
		}
	}
	var back []int64
	for token, f := range s.flights {
		switch {
		case has[token]:
		case f.round < w.Round: // it never arrived, and is refused if it does
			back = append(back, token)
		case now.Sub(f.given) > 2*b.Every:
			again = true
		}
	}
	b.takeBack(s, back)
	return over, again
}

// takeBack has attempts that were given to a worker wait again, before all others.
func (b *Book) takeBack(s *station, tokens []int64) {
	slices.Sort(tokens)
	for _, token := range tokens {
		b.flights[token].at = nil
		delete(s.flights, token)
	}
	b.queue = append(tokens, b.queue...)
}

// Undelivered notes that grants of a round could not be delivered, since their worker was not connected. It is given no more before it offers
// to take some in another round.
func (b *Book) Undelivered(instance string, round int64, tokens []int64) {
	s := b.stations[instance]
	if s == nil || s.round != round {
		return
	}
	s.credit, s.away = s.given, true
	var back []int64
	for _, token := range tokens {
		if f := s.flights[token]; f != nil && f.round == round && !f.began {
			back = append(back, token)
		}
	}
	b.takeBack(s, back)
}

// succeeded notes that what an instance had has been ended by the one after it.
func (b *Book) succeeded(instance string) {
	if b.expected[instance] {
		delete(b.expected, instance)
		b.died = true
	}
	if s := b.stations[instance]; s != nil {
		s.heard = time.Time{}
	}
}

// gone forgets a worker that has ended. What it was given and never took, others get.
func (b *Book) gone(s *station) {
	b.has(s, 0)
	delete(b.expected, s.instance)
	if len(s.flights) == 0 {
		b.forget(s)
	}
}

func (b *Book) forget(s *station) {
	s.credit = s.given
	b.has(s, 0)
	delete(b.stations, s.instance)
}

// Ended notes that an instance has ended and holds nothing. left are the attempts whose reports it has left with the broker. Those that have not come by now
// were lost there: the attempts have run, and others must not be given them.
func (b *Book) Ended(who Holder, left []int64, now time.Time) {
	delete(b.expected, who.Instance)
	for _, token := range left {
		f := b.flights[token]
		if f == nil || !f.adopted && (f.at == nil || f.at.instance != who.Instance) {
			continue
		}
		if f.adopted {
			b.bind(f, b.station(who.Instance, who.Node, now))
		}
		f.left = true
	}
	if s := b.stations[who.Instance]; s != nil {
		b.gone(s)
	}
	b.release()
}

// offered puts a worker among those that are given attempts, if it takes any.
func (b *Book) offered(s *station) {
	if !s.queued && s.given < s.credit {
		s.queued = true
		b.ready = append(b.ready, s)
	}
}

// release has the attempts of the run before given out that nobody can have.
func (b *Book) release() {
	if b.adopted == 0 || b.unsure || len(b.expected) > 0 || b.died {
		return
	}
	var free []int64
	for token, f := range b.flights {
		if f.adopted {
			f.adopted = false
			free = append(free, token)
		}
	}
	slices.Sort(free)
	b.adopted = 0
	b.queue = append(free, b.queue...)
}

// Grants gives attempts that wait to workers that have offered to take some, one at a time to each in turn.
func (b *Book) Grants(now time.Time) []Grant {
	var grants []Grant
	for len(b.ready) > 0 {
		s := b.ready[0]
		if s.given >= s.credit || now.Sub(s.heard) > 3*b.Every { // it is put there again when it is heard of
			b.ready = b.ready[1:]
			s.queued = false
			continue
		}
		f := b.next()
		if f == nil {
			break
		}
		b.ready = append(b.ready[1:], s)
		s.given++
		f.at, f.round, f.given = s, s.round, now
		s.flights[f.token] = f
		grants = append(grants, Grant{f.token, s.instance, s.round})
	}
	return grants
}

// next removes and returns the attempt that has waited longest, or nil.
func (b *Book) next() *flight {
	for len(b.queue) > 0 {
		token := b.queue[0]
		b.queue = b.queue[1:]
		if f := b.flights[token]; f != nil && f.at == nil && !f.adopted {
			return f
		}
	}
	b.queue = nil
	return nil
}

// Deaf says that the coordinator could not hear anybody until now.
func (b *Book) Deaf(now time.Time) {
	for _, s := range b.stations {
		s.heard = now
	}
	b.began = now
}

// Silent returns the attempts of workers that have not been heard of for a lease, and those whose reports only the broker has, in order. They are lost,
// unless there are reports of them that have not been read.
func (b *Book) Silent(now time.Time) []Loss {
	var lost []Loss
	for _, s := range b.stations {
		silent := now.Sub(s.heard) >= b.Lease
		for token, f := range s.flights {
			if silent || f.left {
				lost = append(lost, Loss{Token: token, Node: s.node, Began: f.began && !f.left, Left: f.left})
			}
		}
		if !silent {
			continue
		}
		b.has(s, 0)
		if len(s.flights) == 0 {
			b.forget(s)
		}
	}
	if b.adopted > 0 && (now.Sub(b.began) >= b.Lease || b.died && !b.unsure && len(b.expected) == 0) {
		for token, f := range b.flights {
			if f.adopted {
				lost = append(lost, Loss{Token: token})
			}
		}
	}
	slices.SortFunc(lost, func(a, b Loss) int { return int(a.Token - b.Token) })
	return lost
}

// Unheld returns the attempts that no worker was given, in order.
func (b *Book) Unheld() []int64 {
	var list []int64
	for token, f := range b.flights {
		if f.at == nil && !f.adopted {
			list = append(list, token)
		}
	}
	slices.Sort(list)
	return list
}
