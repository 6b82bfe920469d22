package job

import (
	"bytes"
	"encoding/json"
	"iter"
	"maps"
	"math"
	"time"
)

// Attempts are attempts at items that have started and not ended, by the index of the item. On a fleet there
// may be tens of thousands, and the log is folded twice: most of them have little to be remembered, and take
// less than half of what a running takes. It is written as a map[int]Running.
type Attempts map[int]*startedAttempt

// startedAttempt is what a running is made of.
type startedAttempt struct {
	id     string
	base   string
	node   string
	began  time.Time
	token  int64
	number uint16
	fleet  bool
	all    *Running // of an attempt that has more than the fields above, which are empty then
}

func newStartedAttempt(f Running) *startedAttempt {
	a := &startedAttempt{id: f.ID, base: f.Base, node: f.Node, began: f.Began, token: f.Token, fleet: f.Fleet}
	if f.Number >= 0 && f.Number <= math.MaxUint16 {
		a.number = uint16(f.Number)
	}
	if a.running() != f {
		return &startedAttempt{all: &f}
	}
	return a
}

func (a *startedAttempt) running() Running {
	if a.all != nil {
		return *a.all
	}
	return Running{
		ID: a.id, Base: a.base, Node: a.node, Began: a.began, Token: a.token, Fleet: a.fleet,
		Number: int(a.number),
	}
}

// At returns the attempt at an item, or the zero Attempt if it does not run.
func (l Attempts) At(index int) Running {
	if a := l[index]; a != nil {
		return a.running()
	}
	return Running{}
}

// Get is At, and reports whether there is one.
func (l Attempts) Get(index int) (Running, bool) {
	_, runs := l[index]
	return l.At(index), runs
}

func (l Attempts) Set(index int, f Running) { l[index] = newStartedAttempt(f) }

// change changes the attempt at an item, if there is one.
func (l Attempts) change(index int, how func(*Running)) {
	if f, runs := l.Get(index); runs {
		how(&f)
		l.Set(index, f)
	}
}

// All returns the attempts in no order. The one that it is at may be removed meanwhile.
func (l Attempts) All() iter.Seq2[int, Running] {
	return func(yield func(int, Running) bool) {
		for index, a := range l {
			if !yield(index, a.running()) {
				return
			}
		}
	}
}

// MarshalJSON implements json.Marshaler.
func (l Attempts) MarshalJSON() ([]byte, error) {
	var data bytes.Buffer
	err := encodeExactly(&data, maps.Collect(l.All()))
	return data.Bytes(), err
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *Attempts) UnmarshalJSON(data []byte) error {
	var plain map[int]Running
	if err := json.Unmarshal(data, &plain); err != nil || plain == nil {
		*l = nil
		return err
	}
	*l = make(Attempts, len(plain))
	for index, f := range plain {
		l.Set(index, f)
	}
	return nil
}
