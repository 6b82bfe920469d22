package outputs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"prodigy/internal/check"
	"prodigy/internal/jobs"
)

// What a command has printed beyond the head that is kept of it goes to files of its own while it runs: see
// Entry.Provisional. Each holds half of Policy.PerStep; of a command there are two at most, since the second
// last goes when another is begun. When the command ends, its tail is appended to the store, and its files
// are removed. Where they are left, prodigy was killed.

const tailPrefix = "tail-"

// openTail is the tail of a command that goes on, as the store writes it.
type openTail struct {
	// position is that of the store when the tail of the command began, and number that of the command in the run.
	position   int64
	number     int
	generation int   // of the newest file
	size       int64 // the cost of what is in that
	begin      int64 // offset of the tail
}

// path returns the path of a file of the tail. The order of the names is that in which the files were written, those of
// a command together.
func (t openTail) path(dir string, generation int) string {
	return filepath.Join(dir, fmt.Sprintf("%s%016d-%06d-%06d%s", tailPrefix, t.position, t.number, generation, suffix))
}

// listTails returns the paths of the files of tails in dir, in their order.
func listTails(dir string) ([]string, error) {
	paths, err := jobs.Segments(dir, tailPrefix, suffix)
	return paths, check.Unless(err, os.ErrNotExist)
}

// appendTail writes a provisional entry.
func (s *Store) appendTail(e Entry) error {
	if s.Position() >= int64(s.PerJob) {
		return nil
	}
	t := s.tails[e.Source]
	if t == nil {
		s.tailNumber++
		t = &openTail{position: s.Position(), number: s.tailNumber, generation: 1, begin: e.Offset - e.Missing}
		if s.tails == nil {
			s.tails = map[Source]*openTail{}
		}
		s.tails[e.Source] = t
	}
	if t.size >= int64(s.PerStep)/2 {
		t.generation++
		t.size = 0
		// where somebody reads it that may fail; then it stays until the next run
		_ = os.Remove(t.path(s.dir, t.generation-2))
	}
	if t.size == 0 {
		e.Missing = e.Offset - t.begin // what is before this file will go
	}
	line, err := e.line()
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(t.path(s.dir, t.generation), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	}
	if err == nil {
		_, err = f.Write(line)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return cannotWrite(err)
	}
	t.size += int64(e.Size() + partCost*len(e.Printed)) // as a Recorder counts
	return nil
}

// removeTail removes the files of the tail of a command, if it has any.
func (s *Store) removeTail(of Source) {
	t := s.tails[of]
	if t == nil {
		return
	}
	delete(s.tails, of)
	for g := max(1, t.generation-1); g <= t.generation; g++ {
		_ = os.Remove(t.path(s.dir, g)) // who finds it later sees that the command has ended
	}
}

// adoptTails appends the tails that a killed run has left, as far as the store does not have them, and removes their
// files.
func (s *Store) adoptTails() error {
	t := tails{dir: s.dir}
	t.look()
	if len(t.files) == 0 {
		return nil
	}
	var position int64 // of the store at the first of them; 0 if that is not to be read
	_, _ = fmt.Sscanf(filepath.Base(t.files[0]), tailPrefix+"%d", &position)
	for e, err := range readStore(s.dir, Query{Span: Span{Offset: position}}) {
		if err == nil {
			t.show(e) // also what a run was killed at while it did this
		}
	}
	var failed error
	t.rest(func(e Entry, err error) bool {
		if err == nil { // what is damaged counts as left out
			_, failed = s.write(e)
		}
		return failed == nil
	})
	if failed != nil {
		return failed
	}
	for _, path := range t.files {
		_ = os.Remove(path) // else it is found again, and the store has it
	}
	return nil
}

// tails reads the files of tails beside the entries of the store. Both may have the same text, of which the
// second is left out.
type tails struct {
	dir   string
	query Query
	// files are those that were there at the last look, and at has how far they have been read.
	files []string
	at    map[string]int64
	// shown has the offsets up to which the tails have been yielded.
	shown map[Source]int64
	ended map[Source]bool // of those whose end has been
}

// look finds the files that there are. They are read by rest, after what is in the store: a command that ends between
// has its tail there.
func (t *tails) look() {
	t.files, _ = listTails(t.dir) // if it cannot be read, nor can the store, which says so
	if len(t.files) == 0 {
		t.ended = nil
	}
	before := t.at
	t.at = make(map[string]int64, len(t.files))
	for _, path := range t.files {
		t.at[path] = before[path]
	}
}

// pass takes from an entry what has been shown of its tail. It reports whether anything is left.
func (t *tails) pass(e *Entry) bool {
	shown, known := t.shown[e.Source]
	switch {
	case !known || e.Offset == 0:
	case e.Offset >= shown:
		e.Missing = e.Offset - shown
	default:
		e.Missing = 0
		e.Offset += cutFront(e, shown-e.Offset)
	}
	return len(e.Printed) > 0 || e.End != nil || e.Limit != "" || e.Offset == 0
}

// cutFront takes up to n bytes from the front of what an entry has, and returns how many it took.
func cutFront(e *Entry, n int64) int64 {
	cut := int64(0)
	for cut < n && len(e.Printed) > 0 {
		first := e.Printed[0]
		if k := min(n-cut, int64(len(first.Text))); k < int64(len(first.Text)) {
			e.Printed = append([]Part{{first.Stream, first.Text[k:]}}, e.Printed[1:]...)
			return cut + k
		}
		cut += int64(len(first.Text))
		e.Printed = e.Printed[1:]
	}
	return cut
}

// show notes an entry that is yielded.
func (t *tails) show(e Entry) {
	if e.First && e.Offset == 0 { // a resume runs the command again
		delete(t.shown, e.Source)
		delete(t.ended, e.Source)
	}
	if e.End != nil {
		delete(t.shown, e.Source)
		if len(t.files) > 0 {
			if t.ended == nil {
				t.ended = map[Source]bool{}
			}
			t.ended[e.Source] = true
		}
		return
	}
	if e.Offset > 0 {
		if t.shown == nil {
			t.shown = map[Source]int64{}
		}
		t.shown[e.Source] = e.Offset + int64(e.Size())
	}
}

// rest yields what is new in the files of commands that have not ended. It reports whether more is wanted, and whether
// a file is gone, so that the store has more.
func (t *tails) rest(yield func(Entry, error) bool) (more, gone bool) {
	more = true
	for _, path := range t.files {
		one := reader{query: t.query, at: t.at[path]}
		one.file(file{path: path}, true, func(l Line) bool {
			e, match, err := one.entry(l)
			switch {
			case errors.Is(err, os.ErrNotExist):
				gone = true
			case err != nil:
				more = yield(Entry{}, err)
			case match && !t.ended[e.Source] && t.pass(&e):
				t.show(e)
				more = yield(e, nil)
			}
			return more
		})
		t.at[path] = one.at
		if !more {
			break
		}
	}
	return more, gone
}
