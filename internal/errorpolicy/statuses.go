package errorpolicy

import (
	"errors"
	"slices"
	"strconv"
)

// Status is the state of an item in counts and results.
type Status byte

const (
	Pending Status = iota // not counted yet
	Succeeded
	Dead // a dead letter, counted as failed
	Skipped
	Rejected // a dead letter too: the open breaker refused it, and it was not run
)

// statusNames are the words for the statuses: in counts and messages, and in the rows of results.
var statusNames = [...]struct{ count, result string }{
	Pending:   {count: "pending"},
	Succeeded: {count: "successful", result: "success"},
	Dead:      {count: "failed", result: "failed"},
	Skipped:   {count: "skipped", result: "skipped"},
	Rejected:  {count: "rejected", result: "failed"},
}

// String returns the word for s in counts and messages, such as "skipped".
func (s Status) String() string { return statusNames[s].count }

// Result returns the status of an item in results.jsonl, "" while it is pending.
func (s Status) Result() string { return statusNames[s].result }

// DeadLetter reports whether an item with this status is in the dead letter queue.
func (s Status) DeadLetter() bool { return s == Dead || s == Rejected }

// Statuses holds the status of each item, by index. All are Pending at first. The zero Statuses is empty. A copy
// shares memory; see Clone.
type Statuses struct {
	list    []Status // up to the highest index that was set
	settled int
}

// Len returns the highest index that was set, plus one.
func (l Statuses) Len() int { return len(l.list) }

// At returns the status of an item.
func (l Statuses) At(index int) Status {
	if index >= len(l.list) {
		return Pending
	}
	return l.list[index]
}

// Set sets the status of an item.
func (l *Statuses) Set(index int, s Status) {
	if more := index + 1 - len(l.list); more > 0 {
		l.list = append(l.list, make([]Status, more)...)
	}
	if l.list[index] != Pending {
		l.settled--
	}
	if l.list[index] = s; s != Pending {
		l.settled++
	}
}

// Settled returns how many items are not Pending.
func (l Statuses) Settled() int { return l.settled }

// Clone returns an independent copy.
func (l Statuses) Clone() Statuses { return Statuses{slices.Clone(l.list), l.settled} }

// statusesKept bounds the memory that a decoded text can take.
const statusesKept = 1 << 26

// MarshalText implements encoding.TextMarshaler. Each run of items with the same status is a letter, a for
// the first status, and the length of the run if that is more than one, as in c1200bc7. So the text has at
// most a byte an item.
func (l Statuses) MarshalText() ([]byte, error) {
	var text []byte
	for from := 0; from < len(l.list); {
		s, to := l.list[from], from+1
		for to < len(l.list) && l.list[to] == s {
			to++
		}
		if text = append(text, 'a'+byte(s)); to-from > 1 {
			text = strconv.AppendInt(text, int64(to-from), 10)
		}
		from = to
	}
	return text, nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Statuses) UnmarshalText(text []byte) error {
	var made Statuses
	for i := 0; i < len(text); {
		status := Status(text[i] - 'a')
		i++
		from := i
		for i < len(text) && text[i] >= '0' && text[i] <= '9' {
			i++
		}
		n := 1
		if i > from {
			n, _ = strconv.Atoi(string(text[from:i])) // digits only; too many of them are too large
		}
		if status > Rejected || n < 1 || n > statusesKept-made.Len() {
			return errors.New("no list of statuses")
		}
		for range n {
			made.Set(made.Len(), status)
		}
	}
	*l = made
	return nil
}
