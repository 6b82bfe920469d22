package items

import "bytes"

// textOrValues calls take with each value and with each line that is no JSON, as text. Only objects and arrays go over several lines.
func (f *feed) textOrValues(take func([]byte) error) error {
	if f.loneArray() {
		return f.values(take, true)
	}
	for f.blank() {
		line, whole := f.line(lookAhead)
		var err error
		switch {
		case whole && isJSON(line):
			err = take(bytes.TrimSpace(line))
			f.skip(len(line))
		case opens(line) && readsAsJSON(line):
			err = f.longValues(take)
		default:
			err = f.text(take)
		}
		if err != nil {
			return err
		}
	}
	return f.failure()
}

// longValues takes a value that goes over several lines, and those that follow at once.
func (f *feed) longValues(take func([]byte) error) error {
	r := f.reader()
	for first := true; ; first = false {
		raw, err := r.ReadValue()
		if err != nil && first {
			return r.fault(err)
		}
		if err != nil {
			r.back()
			return nil
		}
		if err := take(raw); err != nil {
			return err
		}
		if !opens(r.UnreadBuffer()) {
			r.back()
			return nil
		}
	}
}

// loneArray tells whether the data is one array, whose elements are meant. An array that does not end on its first line, as far as
// that can be looked at, is taken for one.
func (f *feed) loneArray() bool {
	if !f.blank() {
		return false
	}
	line, whole := f.line(lookAhead)
	if bytes.TrimSpace(line)[0] != '[' {
		return false
	}
	if !whole || !isJSON(line) {
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
