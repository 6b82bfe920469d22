package fleet

import (
	"slices"
	"time"
)

// Book is what a coordinator knows of the attempts that it has given out. It decides which worker may run one, and which are lost. It has no
// clock, and is not safe for concurrent use.
type Book struct {
	Lease time.Duration
	Every time.Duration // how often workers say what they hold

	flights map[int64]*flight
	began   time.Time
}

// Holder is a slot of a worker.
type Holder struct {
	Instance string `json:"instance"`
	Node     string `json:"node"`
	Slot     int    `json:"slot"`
}

type flight struct {
	holder  Holder    // of whom it was granted to; zero: nobody, or nobody knows
	adopted bool      // the run before gave it out, to whom is not known
	listed  time.Time // when its holder last said that it has it
	missed  bool      // the broker has given up whoever held it
}

// NewBook returns an empty book of a coordinator that begins now.
func NewBook(lease, every time.Duration, now time.Time) *Book {
	return &Book{Lease: lease, Every: every, flights: map[int64]*flight{}, began: now}
}

// Add enters an attempt that is given out, or one that the run before had given out.
func (b *Book) Add(token int64, adopted bool, now time.Time) {
	b.flights[token] = &flight{adopted: adopted, listed: now}
}

// End removes an attempt and returns its holder. It reports false if there is none with this token: what is reported of it counts no more.
func (b *Book) End(token int64) (Holder, bool) {
	f, ok := b.flights[token]
	if !ok {
		return Holder{}, false
	}
	delete(b.flights, token)
	return f.holder, true
}

// Holder returns who holds an attempt. It reports false if there is none with this token.
func (b *Book) Holder(token int64) (Holder, bool) {
	f, ok := b.flights[token]
	if !ok {
		return Holder{}, false
	}
	return f.holder, true
}

// Len is the number of attempts that are out.
func (b *Book) Len() int { return len(b.flights) }

// Hears notes what a worker says that it holds.
func (b *Book) Hears(who Holder, tokens []int64, now time.Time) {
	for _, token := range tokens {
		f, ok := b.flights[token]
		if !ok {
			continue
		}
		if f.holder.Instance == "" && f.adopted {
			f.holder = Holder{Instance: who.Instance, Node: who.Node}
		}
		if f.holder.Instance == who.Instance {
			f.listed = now
		}
	}
}

// Deaf says that the coordinator could not hear anybody until now.
func (b *Book) Deaf(now time.Time) {
	for _, f := range b.flights {
		f.listed = now
	}
	b.began = now
}

// Word is the answer to a claim.
type Word string

const (
	Run  Word = "run"  // it is yours
	Over Word = "over" // nobody is to run it any more: forget it, and have the broker forget it
	Held Word = "held" // another worker has it: forget it
	Wait Word = "wait" // ask again later
)

// Claim answers a worker that was delivered an attempt. first says that the broker delivers it for the first time and has had it since it was first
// given out, so that nobody can have run it unless the broker forgot.
func (b *Book) Claim(token int64, who Holder, first bool, now time.Time) (w Word, again time.Duration) {
	f, ok := b.flights[token]
	switch {
	case !ok:
		return Over, 0
	case f.holder.Instance == who.Instance, f.holder.Instance == "" && !f.adopted:
		f.holder, f.listed = who, now
		return Run, 0
	case f.holder.Instance == "" && first:
		if rest := 2*b.Every - now.Sub(b.began); rest > 0 {
			return Wait, rest // who holds it has not spoken yet
		}
		f.holder, f.listed = who, now
		return Run, 0
	}
	if rest := b.Lease - now.Sub(f.listed); rest > 0 {
		if f.holder.Instance != "" && now.Sub(f.listed) < 3*b.Every {
			return Held, 0
		}
		return Wait, rest
	}
	f.missed = true
	return Wait, b.Every
}

// Silent returns the attempts that nobody has been heard to hold for a lease, in order. They are lost, unless there are reports of them that
// have not been read.
func (b *Book) Silent(now time.Time) []int64 {
	var lost []int64
	for token, f := range b.flights {
		if (f.holder.Instance != "" || f.missed) && now.Sub(f.listed) >= b.Lease {
			lost = append(lost, token)
		}
	}
	slices.Sort(lost)
	return lost
}

// Unheld returns the attempts that no worker is known to hold, in order.
func (b *Book) Unheld() []int64 {
	var list []int64
	for token, f := range b.flights {
		if f.holder.Instance == "" && !f.adopted {
			list = append(list, token)
		}
	}
	slices.Sort(list)
	return list
}

// Tokens returns all attempts that are out, in order.
func (b *Book) Tokens() []int64 {
	list := make([]int64, 0, len(b.flights))
	for token := range b.flights {
		list = append(list, token)
	}
	slices.Sort(list)
	return list
}
