package outputs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/jobs"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxLine is longer than any line of a store.
const maxLine = 256 << 10

// DamagedError says that a part of a store cannot be read.
type DamagedError = jobs.LineError

// ErrTorn is the error of an incomplete last line: a run was killed while it wrote, or is writing.
var ErrTorn = errors.New("incomplete last line")

// Query says which entries are read. The zero Query is all.
type Query struct {
	Span    Span // only there
	ItemID  string
	Attempt int // 0: all
	// Newest limits what is read of the store as it is now to about as many bytes at its end. 0: all.
	Newest int64

	// its label, or a part of it between slashes: the steps of hooks stand below their step, as in
	// build/shell_0
	Step string

	Render Render // nil: the stdout of all commands is shown as it is
}

// Read yields the entries of the store in dir that match q, in order, and then, without an end to their span,
// what commands that go on, or were killed with their run, have printed beyond their heads. What is damaged
// is passed over and yielded as a *DamagedError; an incomplete last line is left out. There is nothing to
// read where there is no store.
func Read(dir string, q Query) iter.Seq2[Entry, error] {
	if q.Span.Length > 0 {
		return rendered(readStore(dir, q), q.Render)
	}
	return rendered(follow(context.Background(), dir, q, nil), q.Render)
}

// read yields what is new in the store and then in the tails. It returns false when no more is wanted.
func (t *tails) read(r *reader, yield func(Entry, error) bool) bool {
	for {
		t.look()
		for l := range r.lines() {
			e, match, err := r.entry(l)
			if match {
				match = t.pass(&e)
				t.show(e)
			}
			if (err != nil || match) && !yield(e, err) {
				return false
			}
		}
		if more, gone := t.rest(yield); !more || !gone {
			return more
		}
	}
}

// readStore is Read without tails.
func readStore(dir string, q Query) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		r := newReader(dir, q)
		for l := range r.lines() {
			e, match, err := r.entry(l)
			if (err != nil || match) && !yield(e, err) {
				return
			}
		}
		if end := q.Span.Offset + q.Span.Length; r.at < end {
			yield(Entry{}, &DamagedError{Path: dir, Err: fmt.Errorf("%d bytes are missing at the end", end-r.at)})
		}
	}
}

// Follow is Read, and goes on with what comes until ctx ends or nobody runs the job. Running reports whether
// somebody does.
func Follow(ctx context.Context, dir string, q Query, running func() bool) iter.Seq2[Entry, error] {
	return rendered(follow(ctx, dir, q, running), q.Render)
}

// follow yields entries as they are appended, until running reports false and all of them have been yielded. With a nil
// running it yields those that are there.
func follow(ctx context.Context, dir string, q Query, running func() bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		r := newReader(dir, q)
		t := tails{dir: dir, query: q}
		for idle := range jobs.Looks(ctx, pollEvery, running) {
			// A job that has just begun is not locked yet.
			if !t.read(r, yield) || idle > 1 || running == nil {
				return
			}
		}
	}
}

// Since returns a place in the store in dir behind which everything stands that was written after t, and
// little else. Entries are written up to some seconds after their time. Where the clock went back, or a file
// cannot be read, that is the beginning.
func Since(dir string, t time.Time) int64 {
	const late = time.Minute
	files, err := list(dir)
	if err != nil {
		return 0
	}
	at, before := int64(0), time.Time{}
	for i, f := range files {
		first, ok := firstOf(f)
		if !ok || first.Before(before) {
			return 0
		}
		if before = first; i == 0 || first.Before(t.Add(-late)) {
			at = f.base
		}
	}
	return at
}

// firstOf returns the time of the first entry of a file.
func firstOf(f file) (at time.Time, ok bool) {
	r := reader{at: f.base}
	r.file(f, true, func(l Line) bool {
		e, match, _ := r.entry(l)
		at, ok = e.Time, match
		return false
	})
	return at, ok
}

// Line is one line of a store.
type Line struct {
	File string
	Line int    // 0: not known, since the file was not read from its beginning
	Text []byte // without its line feed; valid until the next
	End  int64  // where it ends in the store
	Err  error  // a *DamagedError, or ErrTorn
}

// Examine yields all lines of the store in dir, and of the tails beside it, and checks them.
func Examine(dir string) iter.Seq[Line] {
	return func(yield func(Line) bool) {
		r := reader{dir: dir}
		for l := range r.lines() {
			if !yield(r.examined(l)) {
				return
			}
		}
		files, err := listTails(dir)
		if err != nil {
			yield(Line{File: dir, Err: &DamagedError{Path: dir, Err: err}})
			return
		}
		more := true
		for i := 0; more && i < len(files); i++ {
			one := reader{dir: dir}
			one.file(file{path: files[i]}, true, func(l Line) bool {
				l.End = 0
				more = yield(one.examined(l))
				return more
			})
		}
	}
}

// reader reads a store from a place on.
type reader struct {
	dir   string
	query Query
	// wanted is in every line that can match.
	wanted []byte
	at     int64 // of the next line
	// amid is set if at is in the middle of a line, whose rest is passed over.
	amid bool
}

func newReader(dir string, q Query) *reader {
	r := &reader{dir: dir, query: q, at: q.Span.Offset, wanted: q.wanted()}
	files, err := list(dir)
	if err != nil || len(files) == 0 {
		return r // lines returns the error
	}
	if q.Newest > 0 {
		last := files[len(files)-1]
		r.at = max(r.at, last.base)
		if info, err := os.Stat(last.path); err == nil && info.Size() > q.Newest && !jobs.IsPacked(last.path) {
			r.at, r.amid = last.base+info.Size()-q.Newest, true
		}
	}
	return r
}

// wanted returns bytes that are in the line of every entry that can match, so that most lines need not be decoded.
func (q Query) wanted() []byte {
	if q.ItemID == "" {
		return nil
	}
	b := append([]byte(nil), `,"item_id":`...)
	quoted, err := jsontext.AppendQuote(b, q.ItemID)
	if err != nil {
		return nil
	}
	return append(quoted, ',')
}

// examined returns a line with what is wrong with it.
func (r *reader) examined(l Line) Line {
	if _, _, err := r.entry(l); err != nil {
		l.Err = err
	}
	return l
}

// entry decodes a line if it can match. An incomplete last line does not.
func (r *reader) entry(l Line) (e Entry, match bool, err error) {
	if l.Err != nil {
		return Entry{}, false, check.Unless(l.Err, ErrTorn)
	}
	sealed := jobs.SealedLines{Required: true}
	err = sealed.Check(l.Text)
	if err == nil && r.wanted != nil && !bytes.Contains(l.Text, r.wanted) {
		return Entry{}, false, nil
	}
	if err == nil {
		err = json.Unmarshal(l.Text, &e)
	}
	if err != nil {
		return Entry{}, false, &DamagedError{Path: l.File, Line: l.Line, Err: err}
	}
	return e, r.query.matches(e), nil
}

// matches reports whether an entry is one that was asked for.
func (q Query) matches(e Entry) bool {
	return (q.ItemID == "" || e.ItemID == q.ItemID) &&
		(q.Attempt == 0 || e.Attempt == q.Attempt && e.ItemID != "") &&
		(q.Step == "" || strings.Contains("/"+e.Step+"/", "/"+q.Step+"/"))
}

// lines yields the lines from r.at on, over all files, and moves r.at behind each.
func (r *reader) lines() iter.Seq[Line] {
	return func(yield func(Line) bool) {
		files, err := list(r.dir)
		if err != nil {
			yield(Line{File: r.dir, Err: &DamagedError{Path: r.dir, Err: err}})
			return
		}
		for i, f := range files {
			last := i == len(files)-1
			if !last && files[i+1].base <= r.at {
				continue
			}
			if r.at < f.base {
				missing := fmt.Errorf("%d bytes before it are missing", f.base-r.at)
				r.at = f.base
				if !yield(Line{File: f.path, Err: &DamagedError{Path: f.path, Err: missing}}) {
					return
				}
			}
			if !r.file(f, last, yield) || r.over() {
				return
			}
		}
	}
}

// over reports whether the end of the span has been reached.
func (r *reader) over() bool {
	s := r.query.Span
	return s.Length > 0 && r.at >= s.Offset+s.Length
}

// file yields the lines of one file. It reports false when no more are wanted.
func (r *reader) file(f file, last bool, yield func(Line) bool) bool {
	l := Line{File: f.path}
	known := r.at == f.base // where in the file this is
	damaged := func(err error) bool {
		l.Text, l.Err, l.End = nil, &DamagedError{Path: f.path, Line: l.Line, Err: err}, r.at
		return yield(l)
	}
	in, err := jobs.OpenPacked(f.path)
	if err != nil {
		return damaged(err)
	}
	defer check.Quietly(in.Close)
	if err := jobs.Skip(in, r.at-f.base); err != nil {
		if errors.Is(err, io.EOF) && last {
			return true
		}
		return damaged(err)
	}
	buffered := bufio.NewReaderSize(in, maxLine)
	if r.amid {
		n, err := jobs.SkipLine(buffered)
		if err != nil {
			return true // its end has not been written yet
		}
		r.at, r.amid = r.at+n, false
	}
	for !r.over() {
		text, err := buffered.ReadSlice('\n')
		if known {
			l.Line++
		}
		r.at += int64(len(text))
		switch {
		case errors.Is(err, io.EOF) && len(text) == 0:
			return true
		case errors.Is(err, io.EOF) && last:
			r.at -= int64(len(text)) // its rest may come
			l.Text, l.Err, l.End = text, ErrTorn, r.at
			return yield(l) && false
		case errors.Is(err, bufio.ErrBufferFull):
			if !damaged(errors.New("the line is too long")) {
				return false
			}
			n, _ := jobs.SkipLine(buffered)
			r.at += n
		case err != nil && !errors.Is(err, io.EOF):
			return damaged(err)
		case err != nil:
			if !damaged(errors.New("incomplete line")) {
				return false
			}
		default:
			l.Text, l.Err, l.End = text[:len(text)-1], nil, r.at
			if !yield(l) {
				return false
			}
		}
	}
	return true
}
