package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"prodigy/internal/agent"
	"prodigy/internal/rawjson"
)

// echoMode is when what the commands of items print is shown. The empty one never shows it.
type echoMode string

const (
	echoGrouped echoMode = "group"       // when the item has ended, its stdout and then its stderr
	echoLines   echoMode = "line-buffer" // each line as it is complete
	echoAtOnce  echoMode = "ungroup"     // as it comes
)

// echoOptions are the flags that show what the commands of items print.
type echoOptions struct {
	usual                 echoMode // without a flag
	group, lines, ungroup bool
	tag                   bool
}

// add gives cmd the flags. usual is the mode that it has without them.
func (o *echoOptions) add(cmd *cobra.Command, usual echoMode) {
	o.usual = usual
	f := cmd.Flags()
	f.BoolVar(&o.group, string(echoGrouped), false, "show all that an item prints when it has ended: stdout, then stderr"+ifUsual(usual == echoGrouped))
	f.BoolVar(&o.lines, string(echoLines), false, "show each line that an item prints when it is complete")
	f.BoolVarP(&o.ungroup, string(echoAtOnce), "u", false, "show what items print as it comes")
	f.BoolVar(&o.tag, "tag", false, "begin each line with the item and a tab")
}

func ifUsual(is bool) string {
	if is {
		return " (the default)"
	}
	return ""
}

// mode returns the mode that the flags ask for.
func (o echoOptions) mode() echoMode {
	switch {
	case o.ungroup:
		return echoAtOnce
	case o.lines:
		return echoLines
	case o.group || o.tag:
		return echoGrouped
	}
	return o.usual
}

// check returns what is wrong with the flags, together with others.
func (o echoOptions) check(job jobOptions) error {
	modes := 0
	for _, given := range []bool{o.group, o.lines, o.ungroup} {
		if given {
			modes++
		}
	}
	switch {
	case modes > 1:
		return usagef("--group, --line-buffer and --ungroup exclude each other")
	case o.tag && o.ungroup:
		return usagef("--tag and --ungroup exclude each other: what comes is no whole line")
	case job.keepOrder && o.ungroup:
		return usagef("--keep-order and --ungroup exclude each other")
	case o.mode() != "" && (job.print || job.format == asJSON):
		return usagef("--group, --line-buffer, --ungroup and --tag cannot be used with --print or --json")
	}
	return nil
}

// checkAgain is check for a job that runs again, whose earlier items are not shown.
func (o echoOptions) checkAgain(job jobOptions) error {
	switch {
	case o.mode() == "":
		return nil
	case job.keepOrder:
		return usagef("--keep-order shows the outputs of all items, also of those that ended before: it excludes --group, --line-buffer, --ungroup and --tag")
	}
	return o.check(job)
}

// flags returns the flags for another command that shows the same.
func (o echoOptions) flags() []string {
	flags := []string{"--" + string(o.mode())}
	if o.tag {
		flags = append(flags, "--tag")
	}
	return flags
}

// showItems has p show what the commands of items print, if o asks for that.
func (p *printer) showItems(con *console, o echoOptions, ordered bool) {
	if o.mode() == "" {
		return
	}
	p.items = nil
	if o.mode() != echoGrouped {
		p.screen.live = false // what comes at any time would be written into the live lines
	}
	outs := [2]io.Writer{con.out, con.raw}
	p.echo = &echo{
		mode: o.mode(), ordered: ordered, items: map[int]*itemEcho{}, ended: map[int]bool{},
		write: func(stream int, text []byte) error {
			_, err := outs[stream].Write(text)
			return err
		},
	}
	if o.tag {
		p.echo.tag = tagOf
	}
}

// echo shows what the commands of items print, as GNU parallel does: every byte of it, of items that fail too, but only of the last
// attempt. What waits is in memory while it is small, and in files that have no name.
type echo struct {
	mode    echoMode
	ordered bool                             // in the order of the items
	tag     func(a *agent.Attempt) string    // begins each line; nil: nothing does
	write   func(stream int, p []byte) error // stream 0 is stdout, 1 stderr
	fatal   func(error)                      // is called once, when output cannot be kept or shown

	mu    sync.Mutex
	items map[int]*itemEcho // that have printed and whose output is not all shown
	next  int               // ordered: the item whose turn it is
	ended map[int]bool      // ordered: items after that which have ended
	held  spool             // of ended items whose turn has not come
	err   error
}

// itemEcho is what one item has printed.
type itemEcho struct {
	attempt int
	step    string
	begin   [2]int64 // where the output of the step that runs begins, in grouped mode
	prefix  string
	lines   [2]bool // the stream is within a line that was shown
	kept    [2]spool
	parked  [2]span // in echo.held
}

// Command implements agent.Echo.
func (e *echo) Command(a *agent.Attempt, step string, try int) (stdout, stderr io.Writer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	it := e.items[a.ItemIndex]
	switch {
	case it == nil:
		it = &itemEcho{}
		if e.tag != nil {
			it.prefix = e.tag(a)
		}
		e.items[a.ItemIndex] = it
	case it.attempt != a.Number:
		it.cut([2]int64{})
	case it.step == step && try > 1:
		it.cut(it.begin)
	}
	if it.step != step || it.attempt != a.Number {
		it.begin = [2]int64{it.kept[0].size, it.kept[1].size}
	}
	it.attempt, it.step = a.Number, step
	return &echoStream{e, a.ItemIndex, it, 0}, &echoStream{e, a.ItemIndex, it, 1}
}

// cut drops what was printed after begin and is not shown yet.
func (it *itemEcho) cut(begin [2]int64) {
	for i := range it.kept {
		it.kept[i].truncate(begin[i])
	}
}

// echoStream takes what a command prints to one of its streams.
type echoStream struct {
	e     *echo
	index int
	item  *itemEcho
	n     int
}

func (s *echoStream) Write(p []byte) (int, error) {
	e, it := s.e, s.item
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil || e.items[s.index] != it {
		return len(p), nil
	}
	later := p
	if e.mode != echoGrouped && (!e.ordered || s.index == e.next) {
		now := len(p)
		if e.mode == echoLines {
			now = bytes.LastIndexByte(p, '\n') + 1
		}
		if now > 0 {
			e.fail(e.showKept(it, s.n))
			e.fail(e.show(it, s.n, p[:now]))
		}
		later = p[now:]
	}
	if _, err := it.kept[s.n].Write(later); err != nil {
		e.fail(fmt.Errorf("keep the output of an item: %w", err))
	}
	return len(p), nil
}

// fail keeps the first error, and reports it.
func (e *echo) fail(err error) {
	if err != nil && e.err == nil {
		e.err = err
		e.fatal(err)
	}
}

// show writes p, with the tag of the item at the beginning of each line.
func (e *echo) show(it *itemEcho, n int, p []byte) error {
	if e.tag == nil {
		return e.write(n, p)
	}
	var b bytes.Buffer
	for line := range bytes.Lines(p) {
		if !it.lines[n] {
			b.WriteString(it.prefix)
			b.WriteByte('\t')
		}
		b.Write(line)
		it.lines[n] = line[len(line)-1] != '\n'
	}
	return e.write(n, b.Bytes())
}

func (e *echo) showKept(it *itemEcho, n int) error {
	return it.kept[n].drain(func(p []byte) error { return e.show(it, n, p) })
}

// finished shows what is left of the item at index, or keeps it until its turn comes. Nothing of the item follows.
func (e *echo) finished(index int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.err != nil:
	case e.ordered:
		e.fail(e.finishInOrder(index))
	default:
		e.fail(e.finish(index))
	}
}

// finishInOrder is finished for outputs that are shown in the order of the items.
func (e *echo) finishInOrder(index int) error {
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
	return e.begin()
}

// begin shows what the item whose turn has come has printed so far.
func (e *echo) begin() error {
	it := e.items[e.next]
	if it == nil || e.mode == echoGrouped {
		return nil
	}
	for n := range it.kept {
		if err := it.kept[n].drainLines(e.mode == echoLines, func(p []byte) error { return e.show(it, n, p) }); err != nil {
			return err
		}
	}
	return nil
}

// finish shows what is left of an item and forgets it.
func (e *echo) finish(index int) error {
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
	return nil
}

// park moves what an item has printed to one file, so that many that wait need neither memory nor a file each.
func (e *echo) park(index int) error {
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

// close shows what still waits for an item that has not ended. Of items that have not ended nothing more is shown: they run again.
func (e *echo) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, index := range slices.Sorted(maps.Keys(e.items)) {
		if e.err == nil && e.ended[index] {
			e.fail(e.finish(index))
		} else {
			e.items[index].close()
		}
	}
	clear(e.items)
	e.held.close()
}

// failure returns what kept output from being shown.
func (e *echo) failure() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

func (it *itemEcho) close() {
	for n := range it.kept {
		it.kept[n].close()
	}
}

// tagOf returns what begins the lines of an item: the item if it is a text, the items of a batch, else its JSON.
func tagOf(a *agent.Attempt) string {
	if a.Batch {
		var words []string
		for raw := range rawjson.Elements(a.Item) {
			words = append(words, textOf(raw))
		}
		return visible(strings.Join(words, " "))
	}
	return visible(textOf(a.Item))
}

func textOf(raw json.RawMessage) string {
	if len(raw) > 0 && raw[0] == '"' {
		return rawjson.Unquote(raw)
	}
	return string(raw)
}

// spool keeps bytes: few of them in memory, more in a file that has no name, so that nothing is left behind.
type spool struct {
	memory []byte
	file   *os.File // nil: all is in memory
	size   int64
}

// mostInMemory is how many bytes of a spool stay in memory.
const mostInMemory = 64 << 10

func (s *spool) Write(p []byte) (int, error) {
	if s.file == nil && int(s.size)+len(p) > mostInMemory {
		file, err := os.CreateTemp("", "prodigy-output-*") // mode 0600
		if err != nil {
			return 0, err
		}
		s.file = file
		_ = os.Remove(file.Name()) // where a file in use cannot be removed, close does it
		if _, err := file.WriteAt(s.memory, 0); err != nil {
			return 0, err
		}
		s.memory = nil
	}
	if s.file == nil {
		s.memory = append(s.memory, p...)
	} else if n, err := s.file.WriteAt(p, s.size); err != nil {
		return n, err
	}
	s.size += int64(len(p))
	return len(p), nil
}

// truncate drops what is after size.
func (s *spool) truncate(size int64) {
	if size >= s.size {
		return
	}
	if s.size = size; s.file != nil {
		_ = s.file.Truncate(size) // what is written overwrites it anyway
	} else {
		s.memory = s.memory[:size]
	}
}

// read calls use with a part of what is kept, in pieces.
func (s *spool) read(part span, use func([]byte) error) error {
	if s.file == nil {
		if part.length == 0 {
			return nil
		}
		return use(s.memory[part.offset : part.offset+part.length])
	}
	buf := make([]byte, min(part.length, mostInMemory))
	for part.length > 0 {
		n, err := s.file.ReadAt(buf[:min(part.length, mostInMemory)], part.offset)
		if n == 0 {
			return errors.Join(err, io.ErrUnexpectedEOF)
		}
		if err := use(buf[:n]); err != nil {
			return err
		}
		part.offset, part.length = part.offset+int64(n), part.length-int64(n)
	}
	return nil
}

// drain calls use with all that is kept, and drops it.
func (s *spool) drain(use func([]byte) error) error {
	err := s.read(span{0, s.size}, use)
	s.truncate(0)
	return err
}

// drainLines is drain without the beginning of an incomplete line, if whole is set.
func (s *spool) drainLines(whole bool, use func([]byte) error) error {
	var rest []byte
	err := s.read(span{0, s.size}, func(p []byte) error {
		end := len(p)
		if whole {
			end = bytes.LastIndexByte(p, '\n') + 1
		}
		if end > 0 {
			if err := use(append(rest, p[:end]...)); err != nil {
				return err
			}
			rest = nil
		}
		rest = append(rest, p[end:]...)
		return nil
	})
	s.truncate(0)
	if err == nil {
		_, err = s.Write(rest)
	}
	return err
}

func (s *spool) close() {
	if s.file != nil {
		name := s.file.Name()
		_ = s.file.Close()
		_ = os.Remove(name)
	}
	*s = spool{}
}
