package mapreduce

import (
	"bytes"
	"encoding/json"
	"iter"
	"maps"
	"math"
	"time"
)

// attempts are attempts at items that have started and not ended, by the index of the item. On a fleet there
// may be tens of thousands, and the log is folded twice: most of them have little to be remembered, and take
// less than half of what a running takes. It is written as a map[int]running.
type attempts map[int]*startedAttempt

// startedAttempt is what a running is made of.
type startedAttempt struct {
	id     string
	base   string
	node   string
	began  time.Time
	token  int64
	number uint16
	fleet  bool
	all    *running // of an attempt that has more than the fields above, which are empty then
}

func newStartedAttempt(f running) *startedAttempt {
	a := &startedAttempt{id: f.ID, base: f.Base, node: f.Node, began: f.Began, token: f.Token, fleet: f.Fleet}
	if f.Number >= 0 && f.Number <= math.MaxUint16 {
		a.number = uint16(f.Number)
	}
	if a.running() != f {
		return &startedAttempt{all: &f}
	}
	return a
}

func (a *startedAttempt) running() running {
	if a.all != nil {
		return *a.all
	}
	f := running{
		ID: a.id, Base: a.base, Node: a.node, Began: a.began, Token: a.token, Fleet: a.fleet,
		Number: int(a.number),
	}
	return f
}

// at returns the attempt at an item; zero: there is none.
func (l attempts) at(index int) running {
	if a := l[index]; a != nil {
		return a.running()
	}
	return running{}
}

// get is at, and reports whether there is one.
func (l attempts) get(index int) (running, bool) {
	_, runs := l[index]
	return l.at(index), runs
}

func (l attempts) set(index int, f running) { l[index] = newStartedAttempt(f) }

// all returns the attempts in no order. The one that it is at may be removed meanwhile.
func (l attempts) all() iter.Seq2[int, running] {
	return func(yield func(int, running) bool) {
		for index, a := range l {
			if !yield(index, a.running()) {
				return
			}
		}
	}
}

// MarshalJSON implements json.Marshaler.
func (l attempts) MarshalJSON() ([]byte, error) {
	plain := maps.Collect(l.all())
	var data bytes.Buffer
	err := encodeExactly(&data, plain)
	return data.Bytes(), err
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *attempts) UnmarshalJSON(data []byte) error {
	var plain map[int]running
	if err := json.Unmarshal(data, &plain); err != nil || plain == nil {
		*l = nil
		return err
	}
	*l = make(attempts, len(plain))
	for index, f := range plain {
		l.set(index, f)
	}
	return nil
}
