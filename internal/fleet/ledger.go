package fleet

import (
	"errors"
	"slices"
	"time"

	"prodigy/internal/events"
)

// Ledger is the account that a coordinator keeps of the attempts that are out: which report counts, what each worker is
// to be told, which ends wait for their records, and which attempts are for the next run. Who gets an attempt, and who
// is lost, its Dispatcher decides. It has no clock, and is not safe for concurrent use.
//
// What a coordinator has to do after it has called methods of a Ledger is what Effects returns.
type Ledger struct {
	*Dispatcher
	Halted   bool // nothing begins any more, and what no worker has is given back
	Detached bool // some attempts may still run when the coordinator ends

	members map[string]bool // instances that are on disk as members: nobody else is given anything
	joining []WorkerStatus  // the last words of those that are being written there
	ends    map[int64]error // why attempts are to be ended alone, by token
	left    map[int64]bool  // tokens of attempts whose ends are for the run after this one

	pending  map[string][]Ending    // ends whose records are not on disk, by agent id, in order
	reported map[int64]bool         // tokens of those that workers have reported
	lost     map[int64]*LostAttempt // by token; the oldest are forgotten
	order    []int64                // their tokens, and those of some whose ends are known

	letters map[string]*Letter // what workers are to be told, by instance
	waiting []string           // instances with letters, in order; some may have ended since
	effects Effects
}

// Effects is what a coordinator has to do.
type Effects struct {
	Back  []Return // attempts that no worker has, and none is to have
	Stuck []int64  // tokens of attempts that were sent too often
	Join  bool     // the workers in Joining are to be written down, for which Joined is called once
	Gone  []string // members that have ended, and had nothing
	Send  bool     // something is to be sent now
	Ack   bool     // something is to be sent, which can wait a moment
}

// Return is an attempt that is given back.
type Return struct {
	Token int64
	Why   error
}

// Ending is the end of an attempt.
type Ending struct {
	Token    int64
	AgentID  string // that the record of the end has
	Index    int    // of the report that says so
	Instance string // whose report that is; empty if there is none
}

// LostAttempt is an attempt that was given up since its worker was silent. Its worker may come back and say how it
// has ended.
type LostAttempt struct {
	events.AttemptID
	Token    int64
	Instance string // of the worker that had it, or empty

	recorded bool // its AgentLost is on disk
}

// Of reports whether the attempt may be what a worker had.
func (l *LostAttempt) Of(instance string) bool { return l.Instance == "" || l.Instance == instance }

const (
	// MostTimes is how often an attempt is given out that never arrives. A worker of several jobs refuses what answers
	// an offer too late; over a slow connection that happens some times in a row.
	MostTimes = 20

	// mostLost is how many lost attempts are remembered. The end of an older one leaves no trace.
	mostLost = 4096
)

// NewLedger returns the ledger of a coordinator that begins now.
func NewLedger(lease, every time.Duration, now time.Time) *Ledger {
	return &Ledger{
		Dispatcher: NewDispatcher(lease, every, now),
		members:    map[string]bool{}, ends: map[int64]error{}, left: map[int64]bool{},
		pending: map[string][]Ending{}, reported: map[int64]bool{}, lost: map[int64]*LostAttempt{}, letters: map[string]*Letter{},
	}
}

// Effects gives attempts that wait to workers that take some, and returns what is to be done since it was called last.
func (l *Ledger) Effects(now time.Time) Effects {
	l.dispatch(now)
	e := l.effects
	l.effects = Effects{}
	return e
}

// Refuse notes that an attempt was given back that was never entered.
func (l *Ledger) Refuse(agentID string) {
	l.pending[agentID] = append(l.pending[agentID], Ending{AgentID: agentID})
}

var (
	errStopping = errors.New("the job is stopping")
	errPaused   = errors.New("the job is paused")
)

// TakeBack gives back what no worker has.
func (l *Ledger) TakeBack() { l.giveBack(errPaused) }

func (l *Ledger) giveBack(why error) {
	for _, token := range l.Unassigned() {
		l.effects.Back = append(l.effects.Back, Return{token, why})
	}
}

// dispatch gives attempts that wait to workers that take some.
func (l *Ledger) dispatch(now time.Time) {
	if l.Halted {
		if len(l.queue) > 0 {
			l.giveBack(errStopping)
			l.queue = nil
		}
		return
	}
	for token, cause := range l.ends {
		if l.Waits(token) {
			l.flights[token].work = ends // so that no worker gets it
			l.effects.Back = append(l.effects.Back, Return{token, cause})
		}
	}
	for _, g := range l.Assign(now) {
		if g.Times > MostTimes {
			l.effects.Stuck = append(l.effects.Stuck, g.Token)
		}
		letter := l.send(g.Instance)
		if letter.Round != g.Round { // what answers an earlier round would be refused
			letter.Round, letter.Tasks = g.Round, nil
		}
		letter.Tasks = append(letter.Tasks, g.Token)
	}
}

// EndAlone has the worker of an attempt end it, and nothing else.
func (l *Ledger) EndAlone(token int64, cause error) {
	l.ends[token] = cause
	l.sayEnd(token)
}

// sayEnd tells the worker of an attempt to end it, if somebody has asked for that. Whenever its worker says that it has
// the attempt, this is said again.
func (l *Ledger) sayEnd(token int64) {
	if instance := l.HolderOf(token); l.ends[token] != nil && instance != "" {
		letter := l.send(instance)
		letter.End = append(letter.End, token)
	}
}

// Hurry has the steps of attempts not wait any longer. A worker that this does not reach lets them wait.
func (l *Ledger) Hurry(tokens []int64) {
	for _, token := range tokens {
		if instance := l.HolderOf(token); instance != "" {
			letter := l.send(instance)
			letter.Due = append(letter.Due, token)
		}
	}
}

// Hear takes what a worker says of itself. One that is no member yet is heard when it is: it is given nothing before,
// since a resume would not know that it was.
func (l *Ledger) Hear(w WorkerStatus, now time.Time) {
	if l.members[w.Instance] {
		l.status(w, now)
		return
	}
	l.joining = append(l.joining, w)
	l.effects.Join = l.effects.Join || len(l.joining) == 1
}

// Joining returns the workers that are to be written down as members.
func (l *Ledger) Joining() []WorkerStatus { return slices.Clone(l.joining) }

// Joined notes that the first n of Joining are on disk. If they could not be written they will speak again.
func (l *Ledger) Joined(n int, written bool, now time.Time) {
	words := l.joining[:n]
	l.joining = l.joining[n:]
	l.effects.Join = len(l.joining) > 0
	if !written {
		return
	}
	for _, w := range words {
		l.members[w.Instance] = true
		l.status(w, now)
	}
}

// Expect is that of the Dispatcher. Those instances are the members of the run before.
func (l *Ledger) Expect(instances []string, others bool, now time.Time) {
	for _, instance := range instances {
		l.members[instance] = true
	}
	l.Dispatcher.Expect(instances, others, now)
}

func (l *Ledger) status(w WorkerStatus, now time.Time) {
	over, again := l.Update(w, now)
	for _, token := range over {
		if !l.reported[token] && !l.left[token] {
			letter := l.send(w.Instance)
			letter.Over = append(letter.Over, token)
		}
	}
	if again {
		l.send(w.Instance).Again = true
	}
	if w.Full && len(l.ends) > 0 {
		for _, token := range w.Holds {
			l.sayEnd(token)
		}
	}
	if !w.Gone {
		return
	}
	// One that still had something is remembered: this run may die before the log says how that has ended, and the next
	// one must not take it for never begun.
	if w.Full && len(w.Holds) == 0 && !l.Knows(w.Instance) {
		l.effects.Gone = append(l.effects.Gone, w.Instance)
	}
	delete(l.letters, w.Instance)
}

// SayAgain has all workers say again what they may have said while nobody could hear them.
func (l *Ledger) SayAgain() {
	for instance := range l.workers {
		l.send(instance).Again = true
	}
}

// Letter is what is to be sent to a worker at once.
type Letter struct {
	Instance string
	Round    int64   // that Tasks answer
	Tasks    []int64 // tokens
	Orders
}

// letter returns the next letter to a worker, in which there may be something already.
func (l *Ledger) letter(instance string) *Letter {
	letter := l.letters[instance]
	if letter == nil {
		letter = &Letter{Instance: instance}
		l.letters[instance] = letter
		l.waiting = append(l.waiting, instance)
	}
	return letter
}

// send returns the next letter to a worker, and has it sent.
func (l *Ledger) send(instance string) *Letter {
	l.effects.Send = true
	return l.letter(instance)
}
