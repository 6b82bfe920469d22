package items

import (
	"bytes"

	"prodigy/internal/rawjson"
)

// textOrValues calls take with each value and with each line that is no JSON, as text. Only objects and arrays go over several lines.
func (f *feed) textOrValues(take func([]byte) error) error {
	if f.loneArray() {
		return f.values(take, true)
	}
	for f.blank() {
		line, whole := f.line(lookAhead)
		var err error
		switch {
		case whole && rawjson.Valid(line):
			err = take(rawjson.Compact(&f.out, bytes.TrimSpace(line)))
			f.skip(len(line))
		case opens(line) && readsAsJSON(line):
			err = f.longValue(take)
		default:
			err = f.text(take)
		}
		if err != nil {
			return err
		}
	}
	return f.failure()
}

// longValue takes a value that goes over several lines.
func (f *feed) longValue(take func([]byte) error) error {
	r := newReader(f)
	raw, err := r.value()
	if err != nil {
		return err
	}
	f.unread(r.decoder.UnreadBuffer())
	return take(raw)
}

// loneArray reports whether the data is one array, whose elements are meant. An array that does not end on its first line, as far as
// that can be looked at, is taken for one.
func (f *feed) loneArray() bool {
	if !f.blank() {
		return false
	}
	line, whole := f.line(lookAhead)
	if bytes.TrimSpace(line)[0] != '[' {
		return false
	}
	if !whole || !rawjson.Valid(line) {
		return readsAsJSON(line)
	}
	for n := len(line); ; f.more() {
		if len(bytes.TrimSpace(f.buf[n:])) > 0 {
			return false
		}
		if f.err != nil {
			return true
		}
	}
}
