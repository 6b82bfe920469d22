package outputs

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// What a command has printed beyond the head that is kept of it goes to files of its own while it runs: see
// Entry.Provisional. Each holds half of Policy.PerStep; of a command there are two at most, since the second
// last goes when another is begun. When the command ends, its tail is appended to the store, and its files
// are removed. Where they are left, prodigy was killed.

const tailPrefix = "tail-"

// tailName is what the name of such a file says.
type tailName struct {
	// position is that of the store when the tail of the command began.
	position   int64
	number     int // of the command, in the run
	generation int
}

// path returns the path of a file of the tail.
func (n tailName) path(dir string, generation int) string {
	return filepath.Join(dir, fmt.Sprintf("%s%016d-%06d-%06d%s", tailPrefix, n.position, n.number, generation, suffix))
}

// tailFile is a file that is there.
type tailFile struct {
	tailName

	path string
}

// listTails returns the files of tails in dir, those of a command together, and in the order in which they
// were written.
func listTails(dir string) ([]tailFile, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var files []tailFile
	for _, e := range entries {
		name, isTail := strings.CutPrefix(e.Name(), tailPrefix)
		name, isFile := strings.CutSuffix(name, suffix)
		parts := strings.Split(name, "-")
		if !isTail || !isFile || len(parts) != 3 {
			continue
		}
		position, err1 := strconv.ParseInt(parts[0], 10, 64)
		number, err2 := strconv.Atoi(parts[1])
		generation, err3 := strconv.Atoi(parts[2])
		if errors.Join(err1, err2, err3) == nil {
			files = append(files, tailFile{tailName{position, number, generation}, filepath.Join(dir, e.Name())})
		}
	}
	slices.SortFunc(files, func(a, b tailFile) int {
		return cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(a.number, b.number),
			cmp.Compare(a.generation, b.generation))
	})
	return files, nil
}

// openTail is the tail of a command that goes on, as the store writes it.
type openTail struct {
	tailName // of the newest file

	size  int64 // the cost of what is in that
	begin int64 // offset of the tail
}

// appendTail writes a provisional entry.
func (s *Store) appendTail(e Entry) error {
	if s.Position() >= int64(s.options.PerJob) {
		return nil
	}
	t := s.tails[e.Source]
	if t == nil {
		s.tailNumber++
		t = &openTail{tailName: tailName{s.Position(), s.tailNumber, 1}, begin: e.Offset - e.Missing}
		if s.tails == nil {
			s.tails = map[Source]*openTail{}
		}
		s.tails[e.Source] = t
	}
	if t.size >= int64(s.options.PerStep)/2 {
		t.generation++
		t.size = 0
		// where somebody reads it that may fail; then it stays until the next run
		_ = os.Remove(t.path(s.dir, t.generation-2))
	}
	if t.size == 0 {
		e.Missing = e.Offset - t.begin // what is before this file will go
	}
	line, err := e.line()
	if err != nil {
		return cannotWrite(err)
	}
	f, err := os.OpenFile(t.path(s.dir, t.generation), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return cannotWrite(err)
	}
	_, err = f.Write(line)
	if err = errors.Join(err, f.Close()); err != nil {
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
	defer t.close()
	if len(t.files) == 0 {
		return nil
	}
	for e, err := range readStore(s.dir, Query{Span: Span{Offset: t.files[0].position}}) {
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
	for _, f := range t.files {
		_ = os.Remove(f.path) // else it is found again, and the store has it
	}
	return nil
}

// tails reads the files of tails beside the entries of the store. Both may have the same text, of which the
// second is left out.
type tails struct {
	dir   string
	query Query
	// files are those that were there at the last look.
	files []tailFile
	open  map[string]tailEnd // by path
	// shown has the offsets up to which the tails have been yielded.
	shown map[Source]int64
	ended map[Source]bool // of those whose end has been
}

// tailEnd is how far a file has been read.
type tailEnd struct {
	file *os.File
	at   int64
}

// look opens the files that there are. They are read by rest, but opened before what is in the store is read:
// a command that ends between has its tail there, else here.
func (t *tails) look() {
	t.files, _ = listTails(t.dir) // if it cannot be read, nor can the store, which says so
	if len(t.files) == 0 {
		t.ended = nil
	}
	there := make(map[string]tailEnd, len(t.files))
	for _, f := range t.files {
		end := t.open[f.path]
		if end.file == nil {
			file, err := os.Open(f.path)
			if err != nil {
				continue // it is gone
			}
			end.file = file
		}
		there[f.path] = end
		delete(t.open, f.path)
	}
	t.close()
	t.open = there
}

func (t *tails) close() {
	for _, end := range t.open {
		_ = end.file.Close() // only read from
	}
	t.open = nil
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

// rest yields what is new in the files of commands that have not ended. It returns false when no more is wanted.
func (t *tails) rest(yield func(Entry, error) bool) bool {
	for _, f := range t.files {
		end, ok := t.open[f.path]
		if !ok {
			continue
		}
		if info, err := end.file.Stat(); err != nil || info.Size() == end.at {
			continue
		}
		if _, err := end.file.Seek(end.at, io.SeekStart); err != nil {
			continue
		}
		lines, more := bufio.NewReaderSize(end.file, maxLine), true
		for more {
			text, err := lines.ReadSlice('\n')
			if err != nil {
				break // an incomplete line
			}
			end.at += int64(len(text))
			e, err := readLine(text[:len(text)-1])
			switch {
			case err != nil:
				more = yield(Entry{}, &DamagedError{File: f.path, Err: err})
			case !t.ended[e.Source] && t.query.matches(e) && t.pass(&e):
				t.show(e)
				more = yield(e, nil)
			}
		}
		t.open[f.path] = end
		if !more {
			return false
		}
	}
	return true
}
