package fleet

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"prodigy/internal/agent"
)

// simFleet is a fleet in virtual time: a coordinator with its Ledger, a pool that tries items again, and workers. What
// they say to each other may get lost, come twice, or late.
type simFleet struct {
	t      *testing.T
	rand   *rand.Rand
	now    time.Time
	events []simEvent
	faults time.Time // none begins after it

	l       *Ledger
	suspect []Loss
	token   int64
	item    map[int64]int // of a token
	ends    map[int]int   // of an item: how often it has ended
	runs    map[int]int   // executions of an item that are under way
	ran     map[int64]int // of a token: executions
	counted map[int64]int // of a token: index of the last report that counted
	taken   map[int64]int // of a token: index of the last report that was taken, maybe as a piece
	disk    []simRecord   // that are not on disk yet
	workers []*simWorker
	names   int
}

type simEvent struct {
	at time.Time
	do func()
}

type simRecord struct {
	token    int64
	reported bool // by its worker, which is not answered before the record is on disk
	lost     bool
}

// simWorker is a worker with some slots. It keeps what it has done until that is answered.
type simWorker struct {
	name   string
	round  int64
	credit int64
	got    int64
	held   map[int64]*simAttempt
	dead   bool
	cut    bool      // it hears nothing, and nobody hears it
	proof  time.Time // when it last could be heard
}

type simAttempt struct {
	reports []Report
	running bool
}

const (
	simItems = 12
	simSlots = 2
	simLease = 16 * time.Second
	simEvery = 2 * time.Second
)

// Each item ends once, no token runs twice, and no two executions of an item overlap, whatever gets lost or dies.
func TestSchedulesOfAFleet(t *testing.T) {
	schedules := uint64(500)
	if testing.Short() {
		schedules = 50
	}
	for seed := range schedules {
		f := newSimFleet(t, seed)
		f.run()
		if t.Failed() {
			t.Fatalf("schedule %d", seed)
		}
	}
}

func newSimFleet(t *testing.T, seed uint64) *simFleet {
	f := &simFleet{
		t: t, rand: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1e9, 0), item: map[int64]int{}, ends: map[int]int{},
		runs: map[int]int{}, ran: map[int64]int{}, counted: map[int64]int{}, taken: map[int64]int{},
	}
	f.faults = f.now.Add(90 * time.Second)
	f.l = NewLedger(simLease, simEvery, f.now)
	for range 3 {
		f.join()
	}
	for i := range simItems {
		f.submit(i)
	}
	return f
}

// run plays a schedule to its end.
func (f *simFleet) run() {
	end := f.faults.Add(140 * time.Second)
	f.every(simEvery/2, f.look)
	f.every(300*time.Millisecond, f.writeDown)
	f.every(simEvery, func() {
		for _, w := range f.workers {
			f.speak(w, true)
		}
	})
	f.every(2*time.Second, f.fault)
	for len(f.events) > 0 && f.now.Before(end) && !f.t.Failed() {
		slices.SortStableFunc(f.events, func(a, b simEvent) int { return a.at.Compare(b.at) })
		e := f.events[0]
		f.events = f.events[1:]
		f.now = e.at
		e.do()
		f.carryOut()
	}
	for i := range simItems {
		if f.ends[i] != 1 {
			f.t.Errorf("item %d has ended %d times, want once", i, f.ends[i])
		}
	}
	if _, more := f.l.Next(); f.l.Len() != 0 || len(f.l.reported) != 0 || len(f.l.pending) != 0 || more {
		f.t.Errorf("%d attempts are left, and ends that wait: %v, %v", f.l.Len(), f.l.reported, f.l.pending)
	}
	for _, w := range f.workers {
		if n := len(w.held); n > 0 && !w.dead {
			f.t.Errorf("%s still keeps %d attempts", w.name, n)
		}
	}
}

func (f *simFleet) after(d time.Duration, do func()) {
	f.events = append(f.events, simEvent{f.now.Add(d), do})
}

func (f *simFleet) every(d time.Duration, do func()) {
	f.after(d, func() {
		do()
		f.every(d, do)
	})
}

// wire delivers something: mostly once, sometimes twice or never, and never in order.
func (f *simFleet) wire(w *simWorker, deliver func()) {
	n := 1
	if f.now.Before(f.faults) {
		switch p := f.rand.IntN(100); {
		case p < 3:
			n = 0
		case p < 6:
			n = 2
		}
	}
	if w.cut || w.dead {
		return
	}
	for range n {
		f.after(time.Duration(f.rand.IntN(400))*time.Millisecond, func() {
			if !w.cut && !w.dead {
				deliver()
			}
		})
	}
}

// join adds a worker.
func (f *simFleet) join() {
	f.names++
	w := &simWorker{
		name: fmt.Sprintf("W%d-1", f.names), round: 1, credit: simSlots, held: map[int64]*simAttempt{}, proof: f.now,
	}
	f.workers = append(f.workers, w)
}

// fault does something that a fleet must bear.
func (f *simFleet) fault() {
	if !f.now.Before(f.faults) {
		return
	}
	w := f.workers[f.rand.IntN(len(f.workers))]
	switch f.rand.IntN(9) {
	case 0: // it dies, and another one takes its place
		if !w.dead {
			f.kill(w)
			w.dead = true
			f.join()
		}
	case 1: // its cable is cut for a while
		w.cut = true
		f.after(time.Duration(f.rand.IntN(40))*time.Second, func() {
			w.cut = false
			f.restate(w)
		})
	case 2: // the coordinator has no connection for a moment
		f.l.RestartLeases(f.now)
		f.l.SayAgain()
	case 3: // somebody ends an attempt alone
		for _, token := range slices.Sorted(maps.Keys(f.item)) {
			if f.l.HolderOf(token) != "" && f.rand.IntN(3) == 0 {
				f.l.EndAlone(token, errors.New("enough"))
				break
			}
		}
	case 4: // a worker kills and forgets something that it has told of
		for _, token := range slices.Sorted(maps.Keys(w.held)) {
			if a := w.held[token]; a.running && f.counted[token] > 0 {
				a.running = false
				f.runs[f.item[token]]--
				delete(w.held, token)
				break
			}
		}
	}
}

func (f *simFleet) kill(w *simWorker) {
	for token, a := range w.held {
		if a.running {
			a.running = false
			f.runs[f.item[token]]--
		}
	}
}

// submit has an item tried, with a token of its own.
func (f *simFleet) submit(item int) {
	f.token++
	f.item[f.token] = item
	f.l.Add(f.token)
}

func agentIDOf(token int64) string { return fmt.Sprint("agent-", token) }

// ended is what the pool does with an attempt that has ended: it is written down, and tried again unless that was it.
func (f *simFleet) ended(r simRecord, done bool) {
	f.disk = append(f.disk, r)
	token := r.token
	if done {
		f.ends[f.item[token]]++
		return
	}
	f.submit(f.item[token])
}

// writeDown has the records of ends be on disk.
func (f *simFleet) writeDown() {
	for _, r := range f.disk {
		f.l.Written(agentIDOf(r.token), r.lost)
	}
	f.disk = nil
}

// attemptOf returns an attempt with a token.
func attemptOf(token int64) *agent.Attempt {
	return &agent.Attempt{ID: agentIDOf(token), Assignment: agent.Assignment{Token: token}}
}

// look ends what is lost at two looks.
func (f *simFleet) look() {
	lost := f.l.Lost(f.now)
	for _, one := range lost {
		if slices.Contains(f.suspect, one) {
			if _, ok := f.l.Lose(attemptOf(one.Token)); ok {
				f.ended(simRecord{token: one.Token, lost: true}, false)
			}
		}
	}
	f.suspect = lost
}

// carryOut does what a coordinator does after a turn.
func (f *simFleet) carryOut() {
	for {
		e := f.l.Effects(f.now)
		for _, r := range e.Back {
			if _, ok := f.l.End(Ending{Token: r.Token, AgentID: agentIDOf(r.Token)}); ok {
				f.ended(simRecord{token: r.Token}, false)
			}
		}
		if e.Join {
			n, written := len(f.l.Joining()), f.rand.IntN(5) > 0
			f.after(50*time.Millisecond, func() { f.l.Joined(n, written, f.now) })
		}
		letter, ok := f.l.Next()
		if !ok && len(e.Back) == 0 {
			return
		}
		if i := slices.IndexFunc(f.workers, func(w *simWorker) bool { return w.name == letter.Instance }); ok && i >= 0 {
			f.deliver(f.workers[i], letter)
		}
	}
}

// deliver sends a letter.
func (f *simFleet) deliver(w *simWorker, letter Letter) {
	for _, r := range f.disk {
		answered := slices.ContainsFunc(letter.Acks, func(a Ack) bool {
			return a.Token == r.token && a.Index >= f.counted[a.Token]
		})
		if r.reported && (answered || slices.Contains(letter.Over, r.token)) {
			f.t.Errorf("%s is to forget token %d, whose end is not on disk", w.name, r.token)
		}
	}
	if len(letter.Tasks) > 0 {
		f.wire(w, func() { f.take(w, letter.Round, letter.Tasks) })
	}
	f.wire(w, func() { f.obey(w, letter) })
}

// take gives a worker tasks. What answers a round that it has closed it refuses.
func (f *simFleet) take(w *simWorker, round int64, tokens []int64) {
	if f.now.Sub(w.proof) > simLease/2 { // it may have been on its way for too long
		f.restate(w)
		return
	}
	for _, token := range tokens {
		if round != w.round || w.got >= w.credit || w.held[token] != nil {
			continue
		}
		w.got++
		a := &simAttempt{running: true}
		w.held[token] = a
		item := f.item[token]
		f.runs[item]++
		f.ran[token]++
		if f.runs[item] > 1 || f.ran[token] > 1 {
			f.t.Errorf("item %d runs %d times at once, token %d has run %d times", item, f.runs[item], token, f.ran[token])
		}
		if f.rand.IntN(2) == 0 {
			f.after(100*time.Millisecond, func() { f.report(w, token, a, Placed) })
		}
		f.after(time.Duration(200+f.rand.IntN(4000)*(1+4*f.rand.IntN(2)))*time.Millisecond, func() { f.finish(w, token, a, Ended) })
	}
}

// report has an attempt say something.
func (f *simFleet) report(w *simWorker, token int64, a *simAttempt, kind ReportKind) {
	if w.held[token] != a || !a.running {
		return
	}
	r := Report{V: Protocol, Token: token, Kind: kind, Holder: Holder{Instance: w.name, Node: w.name}, Outcome: &agent.Outcome{}}
	for n, i := 1+f.rand.IntN(4)/3*2, 0; i < n; i++ { // now and then it is too large for a message
		if r.Index = len(a.reports) + 1; n > 1 {
			r.Piece = &Piece{From: i, More: i < n-1}
		}
		a.reports = append(a.reports, r)
	}
	f.speak(w, false)
}

func (f *simFleet) finish(w *simWorker, token int64, a *simAttempt, kind ReportKind) {
	if w.dead || !a.running {
		return
	}
	f.report(w, token, a, kind)
	a.running = false
	f.runs[f.item[token]]--
	w.credit++
	f.speak(w, false)
}

// obey has a worker do what it is told.
func (f *simFleet) obey(w *simWorker, letter Letter) {
	for _, ack := range letter.Acks {
		if a := w.held[ack.Token]; a != nil && !a.running && ack.Index >= len(a.reports) {
			delete(w.held, ack.Token)
		}
	}
	for _, token := range letter.Over {
		if a := w.held[token]; a != nil {
			if a.running {
				a.running = false
				f.runs[f.item[token]]--
				w.credit++
			}
			delete(w.held, token)
		}
	}
	for _, token := range letter.End {
		if a := w.held[token]; a != nil {
			f.finish(w, token, a, Returned)
		}
	}
	if letter.Again {
		f.restate(w)
	}
}

// restate closes the round of a worker, and offers what is free in another one.
func (f *simFleet) restate(w *simWorker) {
	w.round++
	w.got, w.credit = 0, simSlots
	for _, a := range w.held {
		if a.running {
			w.credit--
		}
	}
	f.speak(w, true)
}

// speak has a worker say what it offers and holds, and all reports that were not answered. One that could not be heard
// for most of the lease kills what it runs before.
func (f *simFleet) speak(w *simWorker, full bool) {
	if w.dead {
		return
	}
	if !w.cut {
		w.proof = f.now
	} else if f.now.Sub(w.proof) > simLease*5/6 {
		for token, a := range w.held {
			f.finishCut(w, token, a)
		}
		return
	}
	u := WorkerStatus{Instance: w.name, Node: w.name, Round: w.round, Credit: w.credit, Slots: simSlots, Full: full}
	var reports []Report
	for token, a := range w.held {
		u.Holds = append(u.Holds, token)
		if len(a.reports) > 0 && f.rand.IntN(8) == 0 { // those before are on another way
			reports = append(reports, a.reports[len(a.reports)-1])
			continue
		}
		reports = append(reports, a.reports...)
	}
	f.wire(w, func() { f.hear(u, reports) })
}

// finishCut kills an attempt for lack of contact.
func (f *simFleet) finishCut(w *simWorker, token int64, a *simAttempt) {
	if a.running {
		a.reports = append(a.reports, Report{
			V: Protocol, Token: token, Index: len(a.reports) + 1, Kind: Dropped, Holder: Holder{Instance: w.name, Node: w.name},
		})
		a.running = false
		f.runs[f.item[token]]--
	}
}

// hear has the coordinator take a message.
func (f *simFleet) hear(u WorkerStatus, reports []Report) {
	for _, r := range reports {
		counted := f.counted[r.Token]
		verdict := f.l.Report(r, f.now)
		if out := f.l.flights[r.Token] != nil; out && r.Index <= counted && verdict == Later {
			f.t.Errorf("report %d of token %d comes again and again: %d have counted", r.Index, r.Token, counted)
		}
		if verdict == Inside || verdict == Final || verdict == Piecemeal {
			if f.taken[r.Token]++; f.taken[r.Token] != r.Index {
				f.t.Errorf("report %d of token %d counts, want %d", r.Index, r.Token, f.taken[r.Token])
			}
			if verdict != Piecemeal {
				f.counted[r.Token] = r.Index
			}
		}
		switch verdict {
		case Inside:
			f.l.Relayed(r)
		case Late:
			if lost := f.l.TakeLost(r.Token); !lost.recorded {
				f.t.Errorf("token %d ends before its loss is on disk", r.Token)
			}
			f.l.Relayed(r)
		case Final:
			if _, ok := f.l.End(Ending{r.Token, agentIDOf(r.Token), r.Index, r.Holder.Instance}); ok {
				f.ended(simRecord{token: r.Token, reported: true}, r.Kind == Ended)
			}
		}
	}
	f.l.Hear(u, f.now)
}

// Only so many lost attempts are remembered.
func TestLostAttemptsAreBounded(t *testing.T) {
	l := NewLedger(time.Minute, time.Second, time.Now())
	for token := range int64(3 * mostLost) {
		l.Add(token)
		l.Lose(attemptOf(token))
	}
	if len(l.lost) != mostLost || len(l.order) != mostLost || l.lost[3*mostLost-1] == nil {
		t.Errorf("%d and %d are remembered, want the last %d", len(l.lost), len(l.order), mostLost)
	}
}
