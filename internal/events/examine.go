package events

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"prodigy/internal/check"
	"prodigy/internal/jobs"
)

// Examined is one line of a log, or what is wrong with one.
type Examined struct {
	File   string
	Line   int    // 0: Err is about the file
	Text   []byte // without its newline, of one that is whole or torn; good until the next one
	Record Record // when Err is nil
	Err    error
}

// Examine yields all lines of the log in dir and goes on behind damage: it is for who wants to know what can
// still be had. An incomplete last line of the log has the error ErrTorn. Records that are missing are an
// error of the line behind them, whose record is returned all the same; a line that was read before, by its
// number, is an error.
func Examine(dir string) iter.Seq[Examined] {
	return func(yield func(Examined) bool) {
		files, err := logFiles(dir)
		if err == nil && len(files) == 0 {
			err = errors.New("log not found")
		}
		if err != nil {
			yield(Examined{File: dir, Err: err})
			return
		}
		sums, last := new(seals), int64(0)
		for i, path := range files {
			if !examineFile(path, i == len(files)-1, sums, &last, yield) {
				return
			}
		}
	}
}

func examineFile(path string, newest bool, sums *seals, last *int64, yield func(Examined) bool) bool {
	f, err := jobs.OpenPacked(path)
	if err != nil {
		return yield(Examined{File: path, Err: err})
	}
	defer check.Quietly(f.Close)
	in := newLineReader(f, path, newest, sums)
	for {
		l, err := in.line()
		if errors.Is(err, io.EOF) {
			return true
		}
		x := Examined{File: path, Line: in.number, Text: l.text, Err: err}
		damaged, another := errors.AsType[*DamagedError](err)
		switch {
		case err == nil:
			x.examine(last)
		case another:
			x.Err = errors.Unwrap(damaged.Err) // the place stands beside it
		}
		if !yield(x) || err != nil && !another {
			return false
		}
	}
}

// examine checks the line behind record last, which it becomes when it is a record.
func (x *Examined) examine(last *int64) {
	r, err := decode(x.Text)
	if err == nil {
		err = believable(r)
	}
	if err == nil && r.Seq <= *last {
		err = fmt.Errorf("duplicate record %d", r.Seq)
	}
	if err != nil {
		x.Err = err
		return
	}
	if r.Seq > *last+1 {
		x.Err = &MissingError{From: *last + 1, To: r.Seq - 1}
	}
	x.Record, *last = r, r.Seq
}

// MissingError says that records are missing before one that is sound.
type MissingError struct{ From, To int64 }

func (e *MissingError) Error() string {
	if e.From == e.To {
		return fmt.Sprintf("record %d is missing before this line", e.From)
	}
	return fmt.Sprintf("records %d to %d are missing before this line", e.From, e.To)
}
