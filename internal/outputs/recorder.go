package outputs

import (
	"bytes"
	"sync"
	"time"

	"prodigy/internal/check"
)

const (
	// flushFirst and flushNext are how long what a command has printed waits to be passed on, while the command runs.
	flushFirst = 100 * time.Millisecond
	flushNext  = time.Second
	// maxEntry is how much of pending makes an entry, which may be larger by as much.
	maxEntry = 16 << 10
	// maxPartial is how much of an incomplete line waits for its end.
	maxPartial = 4 << 10
	// partCost is what a part costs beside its text, for bounds of memory.
	partCost = 32
)

// Receiver takes the entries of a Recorder, in order. It keeps them: their memory is not used again.
type Receiver interface{ Receive(Entry) }

// Recorder collects what one command prints. Nothing is passed on of a command that prints nothing. Its
// methods may be called from several goroutines at once. The zero Recorder keeps nothing, nor does a nil one.
type Recorder struct {
	Source Source
	Policy // without Keep nothing is kept
	To     Receiver

	mu sync.Mutex
	// partial has the incomplete lines of the streams, which wait for their ends, so that nothing comes between.
	partial [2][]byte
	// pending was not passed on yet. size is what it costs.
	pending []Part
	size    int // the cost of pending
	at      time.Time
	// head is how many bytes went to pending, and all how many went there or to the tail.
	head int
	all  int64 // and those that went to the tail as well
	// passed is how many of all were passed on, of those after the head provisionally.
	passed int64
	tail   tail
	timer  *time.Timer
	// sent is set once an entry was passed on.
	sent  bool
	ended bool
}

// Write adds what the command printed to a stream. It copies p.
func (r *Recorder) Write(s Stream, p []byte) {
	if r == nil || r.To == nil || r.Keep == "" || r.Keep == None || len(p) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	if r.at.IsZero() {
		r.at = time.Now()
	}
	if end := bytes.LastIndexByte(p, '\n') + 1; end > 0 {
		r.takePartial(s)
		r.take(s, p[:end])
		p = p[end:]
	}
	if r.partial[s] = append(r.partial[s], p...); len(r.partial[s]) > maxPartial {
		r.takePartial(s)
	}
	if r.timer == nil && r.Keep == All {
		r.timer = time.AfterFunc(flushFirst, r.tick)
	}
}

// takePartial takes the incomplete line of a stream.
func (r *Recorder) takePartial(s Stream) {
	r.take(s, r.partial[s])
	r.partial[s] = r.partial[s][:0]
}

// take adds text to what is pending, or to the tail.
func (r *Recorder) take(s Stream, p []byte) {
	for len(p) > 0 && r.head < r.limit() {
		n := min(len(p), r.limit()-r.head, maxEntry)
		before := len(r.pending)
		r.pending = appendPart(r.pending, s, p[:n])
		r.size += n + partCost*(len(r.pending)-before)
		r.head += n
		r.all += int64(n)
		p = p[n:]
		if r.size >= maxEntry && r.Keep == All { // else it is divided when the command has failed
			r.flush()
		}
	}
	if len(p) > 0 {
		r.tail.limit = int(r.PerStep) - r.limit()
		r.tail.add(s, p)
		r.all += int64(len(p))
	}
}

// limit is how many bytes are passed on for good while the command runs. What follows is held back, since its
// beginning may have to go.
func (r *Recorder) limit() int { return int(r.PerStep) / 2 }

// tick passes on what is pending of a command that goes on.
func (r *Recorder) tick() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	r.takePartial(Stdout)
	r.takePartial(Stderr)
	r.flush()
	r.passTail()
	r.timer.Reset(flushNext)
}

// passTail passes on what is new in the tail, so that it can be seen, and found when prodigy is killed.
func (r *Recorder) passTail() {
	before, start := max(r.passed, int64(r.head)), int64(r.head)+r.tail.dropped
	if r.all == before {
		return
	}
	if r.at.IsZero() {
		r.at = time.Now()
	}
	offset := max(before, start)
	for _, e := range divideTail(r.tail.copyOf(offset-start), offset, offset-before) {
		e.Provisional = true
		r.pass(e)
	}
	r.passed, r.at = r.all, time.Time{}
}

// Close passes on the rest and how the command ended. Nothing may be written afterwards.
func (r *Recorder) Close(end End) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	r.ended = true
	if r.timer != nil {
		r.timer.Stop()
	}
	if r.at.IsZero() && !r.sent || r.Keep == Failed && !end.Failed && !end.Stopped {
		return
	}
	r.takePartial(Stdout)
	r.takePartial(Stderr)
	entries := divide(r.pending)
	entries = append(entries, divideTail(r.tail.parts, int64(r.head)+r.tail.dropped, r.tail.dropped)...)
	if len(entries) == 0 {
		entries = make([]Entry, 1)
	}
	if r.at.IsZero() {
		r.at = time.Now()
	}
	entries[len(entries)-1].End = new(end)
	for _, e := range entries {
		r.pass(e)
	}
	r.pending, r.tail = nil, tail{}
}

// flush passes on what is pending, but for the beginning of a character at its end, unless that goes on in the tail.
func (r *Recorder) flush() {
	var rest []Part
	if n := len(r.pending); n > 0 && len(r.tail.parts) == 0 {
		last := &r.pending[n-1]
		if cut := check.WholeEnd(last.Text); cut < len(last.Text) {
			rest = []Part{{last.Stream, bytes.Clone(last.Text[cut:])}}
			if last.Text = last.Text[:cut]; cut == 0 {
				r.pending = r.pending[:n-1]
			}
		}
	}
	if len(r.pending) > 0 {
		r.pass(Entry{Printed: r.pending})
		r.at = time.Time{}
	}
	r.pending, r.size = rest, 0
	if len(rest) > 0 {
		r.size, r.at = len(rest[0].Text), time.Now()
	}
}

func (r *Recorder) pass(e Entry) {
	e.Source, e.Time, e.First = r.Source, r.at.UTC().Truncate(time.Microsecond), !r.sent
	r.sent = true
	r.To.Receive(e)
}

// appendPart adds text to the last part, or behind it.
func appendPart(parts []Part, s Stream, text []byte) []Part {
	if n := len(parts); n > 0 && parts[n-1].Stream == s {
		parts[n-1].Text = append(parts[n-1].Text, text...)
		return parts
	}
	return append(parts, Part{s, bytes.Clone(text)})
}

// divide makes entries of parts.
func divide(parts []Part) []Entry {
	var entries []Entry
	size := 0
	for _, p := range parts {
		for len(p.Text) > 0 {
			if len(entries) == 0 || size >= maxEntry {
				entries, size = append(entries, Entry{}), 0
			}
			n := min(len(p.Text), maxEntry-size)
			if n < len(p.Text) {
				n = max(check.WholeEnd(p.Text[:n]), 1)
			}
			e := &entries[len(entries)-1]
			e.Printed = append(e.Printed, Part{p.Stream, p.Text[:n]})
			p.Text, size = p.Text[n:], size+n+partCost
			if len(p.Text) > 0 {
				size = maxEntry
			}
		}
	}
	return entries
}

// divideTail makes entries of parts that begin at an offset, behind as many bytes as are missing there.
func divideTail(parts []Part, offset, missing int64) []Entry {
	entries := divide(parts)
	for i := range entries {
		e := &entries[i]
		e.Offset, e.Missing, missing = offset, missing, 0
		offset += int64(e.Size())
	}
	return entries
}

// tail keeps the last bytes of what is added to it.
type tail struct {
	limit   int // the cost of parts at most
	cost    int
	parts   []Part
	dropped int64
}

func (t *tail) add(s Stream, p []byte) {
	if over := len(p) - t.limit; over > 0 {
		t.drop(t.cost)
		t.dropped += int64(over)
		p = p[over:]
	}
	before := len(t.parts)
	t.parts = appendPart(t.parts, s, p)
	t.cost += len(p) + partCost*(len(t.parts)-before)
	if over := t.cost - t.limit; over > 0 {
		t.drop(over)
	}
}

// drop removes at least n of the cost from the front, and what is left of a character there.
func (t *tail) drop(n int) {
	for n > 0 && len(t.parts) > 0 {
		first := &t.parts[0]
		cut := min(n, len(first.Text))
		cut += check.WholeStart(first.Text[cut:])
		t.dropped += int64(cut)
		t.cost -= cut
		n -= cut
		if first.Text = first.Text[cut:]; len(first.Text) == 0 {
			t.parts = t.parts[1:]
			t.cost -= partCost
			n -= partCost
		}
	}
}

// copyOf returns a copy of the parts without the first n bytes.
func (t *tail) copyOf(n int64) []Part {
	var parts []Part
	for _, p := range t.parts {
		k := min(n, int64(len(p.Text)))
		n -= k
		if text := p.Text[k:]; len(text) > 0 {
			parts = append(parts, Part{p.Stream, bytes.Clone(text)})
		}
	}
	return parts
}
