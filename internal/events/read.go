package events

import (
	"bytes"
	"errors"
	"iter"
	"slices"
)

// ErrTorn is what Read yields last when the log ends in an incomplete line: a run was killed while it wrote,
// or is writing it now.
var ErrTorn = errors.New("the log ends in an incomplete line")

// Read yields the records of the log in dir, oldest first, over all its files, compressed or not, for those
// who believe them: whatever is wrong with one is an error. A damaged line is a [*DamagedError] that names
// file and line, and so is a record that is missing or doubled or of a type that this version does not know;
// a torn last line of the newest file yields what is before it and then ErrTorn.
//
// Records of the types of but are passed over: their checksums and numbers count, and they are not decoded, which is
// most of the work.
func Read(dir string, but ...Event) iter.Seq2[Record, error] {
	var names [][]byte
	for _, e := range but {
		names = append(names, appendQuoted(nil, TypeOf(e)))
	}
	return records(only(scan(dir), func(l line) bool { return !slices.ContainsFunc(names, l.hasType) }))
}

// only yields those of seq that keep wants, up to the first error.
func only[T any](seq iter.Seq2[T, error], keep func(T) bool) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for v, err := range seq {
			if err == nil && !keep(v) {
				continue
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// Each calls do for each of records. An incomplete last line ends them without an error.
func Each(records iter.Seq2[Record, error], do func(Record)) error {
	for r, err := range records {
		if errors.Is(err, ErrTorn) {
			return nil
		}
		if err != nil {
			return err
		}
		do(r)
	}
	return nil
}

// records yields the records of lines.
func records(lines iter.Seq2[line, error]) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for l, err := range lines {
			var r Record
			if err == nil {
				if r, err = decode(l.text); err == nil {
					err = believable(r)
				}
				if err != nil {
					r, err = Record{}, l.damaged(err)
				}
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// ReadLines is Read for people who want the lines as they are written, without their newlines: it decodes
// only what q does not rule out. A line is good until the next one is asked for. A torn last line is ErrTorn,
// after all others.
func ReadLines(dir string, q Query) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		f, err := newFilter(q)
		if err != nil {
			yield(nil, err)
			return
		}
		if q.Limit > 0 {
			lines, err := f.newest(dir, q.Limit)
			for _, text := range lines { // the oldest of them first
				if !yield(text, nil) {
					return
				}
			}
			if err != nil {
				yield(nil, err)
			}
			return
		}
		for line, err := range scan(dir) {
			match := false
			if err == nil {
				match, err = f.match(line)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if match && !yield(line.text, nil) {
				return
			}
		}
	}
}

// ring keeps copies of the last size lines.
type ring struct {
	size  int
	lines [][]byte
	next  int // where the next line goes once there are size
}

// add keeps a line, in place of the oldest once there are size.
func (r *ring) add(line []byte) {
	if len(r.lines) < r.size {
		r.lines = append(r.lines, bytes.Clone(line))
		return
	}
	r.lines[r.next] = append(r.lines[r.next][:0], line...)
	r.next = (r.next + 1) % r.size
}

// drain yields the lines, oldest first, and empties the ring. It returns false when no more are wanted.
func (r *ring) drain(yield func([]byte, error) bool) bool {
	lines := r.lines
	r.lines = nil
	for i := range lines {
		if !yield(lines[(r.next+i)%len(lines)], nil) {
			return false
		}
	}
	return true
}
