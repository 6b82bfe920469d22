package term

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
)

// EchoMode is when what the commands of items print is shown.
type EchoMode string

// The modes of an echo.
const (
	Grouped    EchoMode = "group"       // when the item has ended, its stdout and then its stderr
	LineByLine EchoMode = "line-buffer" // each line as it is complete
	AtOnce     EchoMode = "ungroup"     // as it comes
)

// Echo shows what the commands of items print, as GNU parallel does: every byte of it, of items that fail too, but only
// of the last attempt. What waits is in memory while it is small, and in files that have no name. It is safe for
// concurrent use.
type Echo struct {
	Ordered bool            // in the order of the items
	Fatal   func(error)     // is called once, when output cannot be kept or shown; it may be nil
	Shown   func(index int) // is called when all output of an item that has any was shown; it may be nil

	mode  EchoMode
	write func(stream int, p []byte) error // stream 0 is stdout, 1 stderr

	mu    sync.Mutex
	items map[int]*itemEcho // that have printed and whose output is not all shown
	next  int               // ordered: the item whose turn it is
	ended map[int]bool      // ordered: items after that which have ended
	held  spool             // of ended items whose turn has not come
	err   error
}

// NewEcho returns an echo that writes to stdout and stderr. One in the order of the items groups what they print.
func NewEcho(mode EchoMode, ordered bool, stdout, stderr io.Writer) *Echo {
	if ordered {
		mode = Grouped
	}
	outs := [2]io.Writer{stdout, stderr}
	return &Echo{
		mode: mode, Ordered: ordered, items: map[int]*itemEcho{}, ended: map[int]bool{},
		write: func(stream int, p []byte) error {
			_, err := outs[stream].Write(p)
			return err
		},
	}
}

// itemEcho is what one item has printed.
type itemEcho struct {
	attempt int
	step    string
	begin   [2]int64 // where the output of the step that runs begins, in grouped mode
	prefix  string   // of each line
	lines   [2]bool  // the stream is within a line that was shown
	kept    [2]spool
	parked  [2]span // in Echo.held
}

// EchoSource is a command of an item.
type EchoSource struct {
	Item    int // index
	Attempt int
	Step    string
	Try     int
	Tag     func() string // begins each line of the item, with a tab behind it, unless nil
}

// Streams returns what takes the output of a command.
func (e *Echo) Streams(from EchoSource) (stdout, stderr io.Writer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	it := e.items[from.Item]
	switch {
	case it == nil:
		it = &itemEcho{}
		if from.Tag != nil {
			it.prefix = from.Tag() + "\t"
		}
		e.items[from.Item] = it
	case it.attempt != from.Attempt:
		it.cut([2]int64{})
	case it.step == from.Step && from.Try > 1:
		it.cut(it.begin)
	}
	if it.step != from.Step || it.attempt != from.Attempt {
		it.begin = [2]int64{it.kept[0].size, it.kept[1].size}
	}
	it.attempt, it.step = from.Attempt, from.Step
	return &echoStream{e, from.Item, it, 0}, &echoStream{e, from.Item, it, 1}
}

// cut drops what was printed after begin and is not shown yet.
func (it *itemEcho) cut(begin [2]int64) {
	for i := range it.kept {
		it.kept[i].truncate(begin[i])
	}
}

// echoStream takes what a command prints to one of its streams.
type echoStream struct {
	e     *Echo
	index int
	item  *itemEcho
	n     int
}

func (s *echoStream) Write(p []byte) (int, error) {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	if s.e.err == nil && s.e.items[s.index] == s.item {
		s.e.take(s.item, s.n, p)
	}
	return len(p), nil
}

// take shows what an item prints, or keeps it.
func (e *Echo) take(it *itemEcho, n int, p []byte) {
	later := p
	if e.mode != Grouped {
		now := len(p)
		if e.mode == LineByLine {
			now = bytes.LastIndexByte(p, '\n') + 1
		}
		if now > 0 {
			e.fail(e.showKept(it, n))
			e.fail(e.show(it, n, p[:now]))
		}
		later = p[now:]
	}
	if _, err := it.kept[n].Write(later); err != nil {
		e.fail(fmt.Errorf("keep the output of an item: %w", err))
	}
}

// fail keeps the first error, and reports it.
func (e *Echo) fail(err error) {
	if err == nil || e.err != nil {
		return
	}
	if e.err = err; e.Fatal != nil {
		e.Fatal(err)
	}
}

// show writes p, with the prefix of the item at the beginning of each line.
func (e *Echo) show(it *itemEcho, n int, p []byte) error {
	if it.prefix == "" {
		return e.write(n, p)
	}
	var b bytes.Buffer
	for line := range bytes.Lines(p) {
		if !it.lines[n] {
			b.WriteString(it.prefix)
		}
		b.Write(line)
		it.lines[n] = line[len(line)-1] != '\n'
	}
	return e.write(n, b.Bytes())
}

func (e *Echo) showKept(it *itemEcho, n int) error {
	return it.kept[n].drain(func(p []byte) error { return e.show(it, n, p) })
}

// Printed is [Echo.Finished] for an item whose whole output is known, without the newline at its end. An empty one is
// not shown. Of an item that has ended before, only the first output counts.
func (e *Echo) Printed(index int, output string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil || e.Ordered && (index < e.next || e.ended[index]) {
		return e.err
	}
	if output != "" {
		it := &itemEcho{}
		e.items[index] = it
		e.take(it, 0, []byte(output+"\n"))
	}
	e.finished(index)
	return e.err
}

// Finished shows what is left of the item at index, or keeps it until its turn comes. Nothing of the item follows.
func (e *Echo) Finished(index int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.finished(index)
	}
}

func (e *Echo) finished(index int) {
	if e.Ordered {
		e.fail(e.finishInOrder(index))
	} else {
		e.fail(e.finish(index))
	}
}

// finishInOrder is finished for outputs that are shown in the order of the items.
func (e *Echo) finishInOrder(index int) error {
	if index < e.next {
		return nil
	}
	e.ended[index] = true
	if index != e.next {
		return e.park(index)
	}
	for e.ended[e.next] {
		if err := e.finish(e.next); err != nil {
			return err
		}
		delete(e.ended, e.next)
		e.next++
	}
	if len(e.ended) == 0 {
		e.held.truncate(0)
	}
	return nil
}

// finish shows what is left of an item and forgets it.
func (e *Echo) finish(index int) error {
	it := e.items[index]
	if it == nil {
		return nil
	}
	delete(e.items, index)
	defer it.close()
	for n := range it.kept {
		if err := e.held.read(it.parked[n], func(p []byte) error { return e.show(it, n, p) }); err != nil {
			return err
		}
		if err := e.showKept(it, n); err != nil {
			return err
		}
	}
	if e.Shown != nil {
		e.Shown(index)
	}
	return nil
}

// park moves what an item has printed to one file, so that many that wait need neither memory nor a file each.
func (e *Echo) park(index int) error {
	it := e.items[index]
	if it == nil {
		return nil
	}
	defer it.close()
	for n := range it.kept {
		if it.kept[n].size == 0 {
			continue
		}
		begin := e.held.size
		err := it.kept[n].drain(func(p []byte) error {
			_, err := e.held.Write(p)
			return err
		})
		if err != nil {
			return fmt.Errorf("keep the output of an item: %w", err)
		}
		it.parked[n] = span{begin, e.held.size - begin}
	}
	return nil
}

// Close shows what still waits for an item that has not ended, and returns the error of that. Of items that have not
// ended nothing more is shown: they run again.
func (e *Echo) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	broken := e.err != nil
	for _, index := range slices.Sorted(maps.Keys(e.items)) {
		if e.err == nil && e.ended[index] {
			e.fail(e.finish(index))
		} else {
			e.items[index].close()
		}
	}
	clear(e.items)
	e.held.close()
	if broken {
		return nil
	}
	return e.err
}

// Failure returns what kept output from being shown.
func (e *Echo) Failure() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

func (it *itemEcho) close() {
	for n := range it.kept {
		it.kept[n].close()
	}
}
