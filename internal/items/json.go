package items

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"prodigy/internal/workflow"
)

// reader reads JSON values from a feed, and no further.
type reader struct {
	feed  *feed
	quick quick
	scan  scan
	name  []byte // of a member
}

// kind returns the first byte of what comes next. The error is io.EOF when nothing does.
func (r *reader) kind() (byte, error) {
	f := r.feed
	for {
		i := 0
		for i < len(f.buf) && isBlank(f.buf[i]) {
			i++
		}
		f.skip(i)
		switch {
		case len(f.buf) > 0:
			return f.buf[0], nil
		case f.err != nil:
			return 0, f.err
		}
		f.more()
	}
}

// value reads the next value, without the blanks between its parts. It is only valid until the next one is read.
func (r *reader) value() ([]byte, error) {
	r.quick.keep = true
	if n, ok := r.quick.read(r.feed.buf); ok {
		raw := r.feed.buf[:n]
		r.feed.skip(n)
		if r.quick.from > 0 {
			return r.quick.out, nil
		}
		return raw, nil
	}
	r.scan.begin(true)
	err := r.run()
	return r.scan.out, err
}

// pass goes past the next value.
func (r *reader) pass() error {
	r.quick.keep = false
	if n, ok := r.quick.read(r.feed.buf); ok {
		r.feed.skip(n)
		return nil
	}
	r.scan.begin(false)
	return r.run()
}

func (r *reader) run() error {
	f := r.feed
	for {
		done, err := r.scan.read(f.buf, f.err != nil)
		f.skip(r.scan.at)
		switch {
		case err != nil:
			return &notJSONError{offset: f.off, err: err}
		case done:
			return nil
		case f.err != nil:
			return r.cut()
		}
		f.more()
	}
}

// cut is the error of data that ends within a value.
func (r *reader) cut() error {
	if r.feed.err != io.EOF {
		return r.feed.err
	}
	return &notJSONError{offset: r.feed.off + int64(len(r.feed.buf)), err: io.ErrUnexpectedEOF}
}

// array calls each before every element of the array that comes next.
func (r *reader) array(each func(i int) error) error {
	r.feed.skip(1)
	for i := 0; ; i++ {
		if c, err := r.kind(); err != nil || i == 0 && c == ']' {
			return r.leave(err)
		}
		if err := each(i); err != nil {
			return err
		}
		if more, err := r.more(']', "after an element of an array"); err != nil || !more {
			return err
		}
	}
}

// object calls each after the name, which it is given in quotes, and before the value of every member of the object that comes next.
func (r *reader) object(each func(quoted []byte) error) error {
	r.feed.skip(1)
	for first := true; ; first = false {
		c, err := r.kind()
		if err != nil || first && c == '}' {
			return r.leave(err)
		}
		if c != '"' {
			return r.fault(c, "where the name of a member should start")
		}
		name, err := r.value()
		if err != nil {
			return err
		}
		r.name = append(r.name[:0], name...) // what follows may move the data
		switch c, err := r.kind(); {
		case err != nil:
			return r.cut()
		case c != ':':
			return r.fault(c, "after the name of a member (expecting ':')")
		}
		r.feed.skip(1)
		if err := each(r.name); err != nil {
			return err
		}
		if more, err := r.more('}', "after the value of a member"); err != nil || !more {
			return err
		}
	}
}

// leave goes past the end of an empty array or object, or tells that there is none.
func (r *reader) leave(err error) error {
	if err != nil {
		return r.cut()
	}
	r.feed.skip(1)
	return nil
}

// more goes past a comma, after which more comes, or past the end of the array or object.
func (r *reader) more(end byte, where string) (bool, error) {
	c, err := r.kind()
	switch {
	case err != nil:
		return false, r.cut()
	case c == ',', c == end:
		r.feed.skip(1)
		return c == ',', nil
	}
	return false, r.fault(c, fmt.Sprintf("%s (expecting ',' or '%c')", where, end))
}

// fault is the error about the byte that comes next.
func (r *reader) fault(c byte, where string) error {
	return &notJSONError{offset: r.feed.off, err: unexpected(c, where)}
}

// selected calls take with what the path selects in each value.
func (f *feed) selected(p path, take func([]byte) error) error {
	return f.each(p, p, take)
}

// values calls take with each value, or with the elements of the first one when it is apart.
func (f *feed) values(take func([]byte) error, apart bool) error {
	if apart {
		return f.each(elements(), path{}, take)
	}
	return f.each(path{}, path{}, take)
}

// each evaluates a path on the first value, and another on the values that follow it.
func (f *feed) each(first, others path, take func([]byte) error) error {
	s := &selector{reader: &reader{feed: f}, path: first, take: take}
	for {
		if err := s.next(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		s.path = others
		f.found = true
	}
}

func isJSON(data []byte) bool {
	return jsontext.Value(data).IsValid(jsontext.AllowDuplicateNames(true))
}

// opens tells whether the data begins like an object or array.
func opens(data []byte) bool {
	data = bytes.TrimLeft(data, " \t\r\n")
	return len(data) > 0 && (data[0] == '{' || data[0] == '[')
}

// readsAsJSON tells whether the data is JSON as far as it goes.
func readsAsJSON(data []byte) bool {
	dec := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true))
	for {
		if _, err := dec.ReadToken(); err != nil {
			return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		}
	}
}

var errUTF8 = errors.New("invalid UTF-8")

// notJSONError says that the data is not what it should be.
type notJSONError struct {
	offset int64 // of the place in the data
	err    error
}

func (e *notJSONError) Error() string {
	if errors.Is(e.err, io.ErrUnexpectedEOF) {
		return "the JSON ends too early"
	}
	if errors.Is(e.err, errUTF8) {
		return "not UTF-8, which all text must be"
	}
	return fmt.Sprintf("not JSON: %v", e.err)
}

// inPlace names what was read before an error of the data, and the place in it. Place words an offset; nil counts the bytes.
func inPlace(err error, what string, place func(offset int64) string) error {
	var bad *notJSONError
	var row *rowError
	var yaml *workflow.DataError
	switch {
	case errors.As(err, &bad) && place != nil:
		return fmt.Errorf("%s: %s: %w", what, place(bad.offset), bad)
	case errors.As(err, &bad):
		return fmt.Errorf("%s: byte %d: %w", what, bad.offset, bad)
	case errors.As(err, &row):
		return fmt.Errorf("%s: %w", what, row)
	case errors.As(err, &yaml):
		return fmt.Errorf("%s: %w", what, yaml)
	}
	return err
}
