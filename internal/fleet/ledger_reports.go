package fleet

import (
	"time"

	"prodigy/internal/agent"
)

// Verdict is what becomes of a report.
type Verdict int

const (
	Ignore    Verdict = iota // its attempt is being ended
	Later                    // it is not its turn, and it is to come again
	Answered                 // nobody needs it: its worker is told so
	Kept                     // it is answered when the record of the end is on disk, as the first one that said so
	Late                     // it is the end of an attempt that was given up, see TakeLost
	Piecemeal                // it is a piece of a report, and answered with the last one
	Inside                   // it happened inside the attempt: it is passed on, and then Relayed answers it
	Final                    // it ends the attempt
)

// Report takes what a worker says of an attempt. The reports of an attempt count in order, each once.
func (l *Ledger) Report(r Report, now time.Time) Verdict {
	f := l.flights[r.Token]
	switch {
	case f == nil:
		return l.reportOfNone(r)
	case f.work == relays: // it came by another way than the one before
		return Later
	case f.work == ends:
		return Ignore
	case !l.Reported(r.Token, r.Holder, now), f.whole >= r.Index:
		l.ack(r)
		return Answered
	case f.last >= r.Index: // it is kept until the last piece is here
		return Later
	case f.last >= 0 && r.Index != f.last+1, f.last < 0 && r.Piece != nil && r.Piece.From > 0: // one before it is missing
		return Later
	}
	f.last = r.Index
	if r.Continues() {
		return Piecemeal
	}
	f.whole = f.last
	if !r.Final() {
		f.work = relays
		return Inside
	}
	return Final
}

// reportOfNone takes a report of an attempt that is not out.
func (l *Ledger) reportOfNone(r Report) Verdict {
	switch lost := l.lost[r.Token]; {
	case l.left[r.Token]:
		return Later
	case l.reported[r.Token]:
		return Kept
	case lost == nil || !r.Final() || !lost.Of(r.Holder.Instance):
		l.ack(r)
		return Answered
	case !lost.recorded: // it would come before the AgentLost
		return Later
	}
	return Late
}

// Relayed notes that what happened inside an attempt was passed on.
func (l *Ledger) Relayed(r Report) {
	if f := l.flights[r.Token]; f != nil {
		f.work = waits
	}
	l.ack(r)
}

// Fetch notes that what an attempt has produced is being fetched. Its worker is needed no more.
func (l *Ledger) Fetch(token int64) { l.flights[token].work = ends }

// Fetches reports whether what an attempt has produced is being fetched.
func (l *Ledger) Fetches(token int64) bool {
	f := l.flights[token]
	return f != nil && f.work == ends
}

// End ends an attempt, and returns who had it. It reports false if the attempt is not out: who reported that is late.
func (l *Ledger) End(e Ending) (Holder, bool) {
	h, ok := l.Remove(e.Token)
	if !ok {
		return h, false
	}
	delete(l.ends, e.Token)
	l.pending[e.AgentID] = append(l.pending[e.AgentID], e)
	if e.Instance != "" {
		l.reported[e.Token] = true
	}
	return h, true
}

// Lose ends an attempt that is lost, and remembers it.
func (l *Ledger) Lose(a *agent.Attempt) (Holder, bool) {
	h, ok := l.End(Ending{Token: a.Token, AgentID: a.ID})
	if !ok {
		return h, false
	}
	l.lost[a.Token] = &LostAttempt{AttemptID: a.AttemptID(), Token: a.Token, Instance: h.Instance}
	l.order = append(l.order, a.Token)
	if len(l.order) > mostLost {
		delete(l.lost, l.order[0])
		l.order = l.order[1:]
	}
	return h, true
}

// LostOf returns an attempt that was given up and that a worker may have had, or nil.
func (l *Ledger) LostOf(token int64, instance string) *LostAttempt {
	if lost := l.lost[token]; lost != nil && lost.Of(instance) {
		return lost
	}
	return nil
}

// TakeLost returns an attempt that was given up, and forgets it: its end counts once.
func (l *Ledger) TakeLost(token int64) LostAttempt {
	lost := l.lost[token]
	delete(l.lost, token)
	return *lost
}

// Leave leaves an attempt to the run after this one. Its worker and the broker keep for that what is reported of it.
func (l *Ledger) Leave(token int64) {
	l.Remove(token)
	l.Detached, l.left[token] = true, true
}

// Left reports whether an attempt was left to the run after this one.
func (l *Ledger) Left(token int64) bool { return l.left[token] }

// Forget removes an attempt whose end nobody will record.
func (l *Ledger) Forget(token int64) {
	l.Remove(token)
	delete(l.ends, token)
}

// Written notes that the record of the next end of an agent is on disk, and returns that end. lost says that it is an
// AgentLost. It reports false if no end of the agent is awaited.
func (l *Ledger) Written(agentID string, lost bool) (Ending, bool) {
	queue := l.pending[agentID]
	if len(queue) == 0 {
		return Ending{}, false
	}
	e := queue[0]
	if l.pending[agentID] = queue[1:]; len(queue) == 1 {
		delete(l.pending, agentID)
	}
	delete(l.ends, e.Token) // it was asked for after the end
	if e.Instance != "" {
		delete(l.reported, e.Token)
		l.acknowledge(e.Instance, Ack{Token: e.Token, Index: e.Index})
	}
	if a := l.lost[e.Token]; lost && a != nil {
		a.recorded = true
	}
	return e, true
}

// ack tells a worker that a report is not needed any more.
func (l *Ledger) ack(r Report) { l.acknowledge(r.Holder.Instance, Ack{Token: r.Token, Index: r.Index}) }

// acknowledge sends an acknowledgement in a moment, so that it mostly goes with what its worker is given next.
func (l *Ledger) acknowledge(instance string, a Ack) {
	letter := l.letter(instance)
	if last := len(letter.Acks) - 1; last >= 0 && letter.Acks[last].Token == a.Token {
		letter.Acks[last].Index = max(letter.Acks[last].Index, a.Index)
	} else {
		letter.Acks = append(letter.Acks, a)
	}
	l.effects.Ack = true
}

// Next returns what is to be sent next. It reports false if nothing is.
func (l *Ledger) Next() (Letter, bool) {
	for len(l.waiting) > 0 {
		instance := l.waiting[0]
		l.waiting = l.waiting[1:]
		if letter := l.letters[instance]; letter != nil {
			delete(l.letters, instance)
			return *letter, true
		}
	}
	return Letter{}, false
}
