package errorpolicy

import (
	"bytes"
	"errors"
	"iter"
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

// Statuses holds the status of each item, by index. All are Pending at first. Neighbours finish at about the
// same time, mostly with the same status, so a page of items with one status takes no memory for its items,
// and any other half a byte an item: a million successful items take a few kilobytes. The zero Statuses is
// empty. A copy shares memory; see Clone.
type Statuses struct {
	pages []page
	n     int // one more than the highest index that was set
}

// pageItems is the number of items on a page.
const pageItems = 4096

// page holds the statuses of pageItems neighbouring items.
type page struct {
	list   []byte // two of them a byte, the first in the lower half. It is nil while all are the same
	same   Status // as all of them, without a list
	counts [Rejected + 1]int16
}

// Len returns the highest index that was set, plus one.
func (l Statuses) Len() int { return l.n }

// At returns the status of an item.
func (l Statuses) At(index int) Status {
	if index/pageItems >= len(l.pages) {
		return Pending
	}
	return l.pages[index/pageItems].at(index % pageItems)
}

// Set sets the status of an item.
func (l *Statuses) Set(index int, s Status) {
	for len(l.pages) <= index/pageItems {
		l.pages = append(l.pages, page{counts: [...]int16{Pending: pageItems, Rejected: 0}})
	}
	l.n = max(l.n, index+1)
	l.pages[index/pageItems].set(index%pageItems, s)
}

// Settled returns how many items are not Pending.
func (l Statuses) Settled() int {
	n := 0
	for _, p := range l.pages {
		n += pageItems - int(p.counts[Pending])
	}
	return n
}

// Clone returns an independent copy.
func (l Statuses) Clone() Statuses {
	l.pages = slices.Clone(l.pages)
	for i := range l.pages {
		l.pages[i].list = slices.Clone(l.pages[i].list)
	}
	return l
}

func (p *page) at(i int) Status {
	if p.list == nil {
		return p.same
	}
	return Status(p.list[i/2] >> (i % 2 * 4) & 0xf)
}

func (p *page) set(i int, s Status) {
	before := p.at(i)
	if before == s {
		return
	}
	if p.list == nil {
		p.list = bytes.Repeat([]byte{byte(p.same)<<4 | byte(p.same)}, pageItems/2)
	}
	p.list[i/2] ^= byte(before^s) << (i % 2 * 4)
	p.counts[before]--
	p.counts[s]++
	if p.counts[s] == pageItems {
		p.list, p.same = nil, s
	}
}

// statusesKept bounds the memory that a decoded text can take.
const statusesKept = 1 << 26

// MarshalText implements encoding.TextMarshaler. Each run of items with the same status is a letter, a for
// the first status, and the length of the run if that is more than one, as in c1200bc7. So the text has at
// most a byte an item.
func (l Statuses) MarshalText() ([]byte, error) {
	var text []byte
	for s, n := range l.runs() {
		if text = append(text, 'a'+byte(s)); n > 1 {
			text = strconv.AppendInt(text, int64(n), 10)
		}
	}
	return text, nil
}

// runs yields the items up to the last one that was set as runs of the same status.
func (l Statuses) runs() iter.Seq2[Status, int] {
	return func(yield func(Status, int) bool) {
		for from := 0; from < l.n; {
			s, to := l.At(from), from+1
			for to < l.n && l.At(to) == s {
				to++
			}
			if !yield(s, to-from) {
				return
			}
			from = to
		}
	}
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
		if status > Rejected || n < 1 || n > statusesKept-made.n {
			return errors.New("no list of statuses")
		}
		for range n {
			made.Set(made.n, status)
		}
	}
	*l = made
	return nil
}
