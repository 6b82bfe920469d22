package items

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"prodigy/internal/rawjson"
	"prodigy/internal/workflow"
)

// reader reads JSON values one after the other, and further in the data than them.
type reader struct {
	decoder jsontext.Decoder
	feed    *feed        // of the decoder; nil: it reads data
	data    bytes.Buffer // a single document
	start   int64        // where in the feed the decoder has started
	out     []byte       // a value without the blanks between its parts
}

// anyNames lets a name stand twice in an object.
var anyNames = jsontext.AllowDuplicateNames(true)

func newReader(f *feed) *reader {
	r := &reader{feed: f, start: f.off}
	r.decoder.Reset(f, anyNames)
	return r
}

// open makes data what is read.
func (r *reader) open(data []byte) {
	r.data = *bytes.NewBuffer(data)
	r.decoder.Reset(&r.data, anyNames)
}

// kind returns the kind of what comes next. The error is io.EOF when nothing does.
func (r *reader) kind() (jsontext.Kind, error) {
	kind := r.decoder.PeekKind()
	if kind == jsontext.KindInvalid {
		_, err := r.decoder.ReadToken()
		return kind, r.broken(err)
	}
	return kind, nil
}

// value reads the next value, without the blanks between its parts. It is only valid until something else is read.
func (r *reader) value() ([]byte, error) {
	raw, err := r.decoder.ReadValue()
	if err != nil {
		return nil, r.broken(err)
	}
	bare := isBare(raw[0])
	raw = rawjson.Compact(&r.out, raw)
	if bare && r.decoder.StackDepth() == 0 {
		r.out = append(r.out[:0], raw...) // what follows may move it
		return r.out, r.ended()
	}
	return raw, nil
}

// pass goes past the next value, of which no more than one text is held in memory.
func (r *reader) pass() error {
	kind, err := r.kind()
	if err != nil {
		return err
	}
	if err := r.decoder.SkipValue(); err != nil {
		return r.broken(err)
	}
	if isBare(byte(kind)) && r.decoder.StackDepth() == 0 {
		return r.ended()
	}
	return nil
}

// isBare reports whether a value that starts with c is a number or a word, which only what follows it ends.
func isBare(c byte) bool { return c != '{' && c != '[' && c != '"' }

// ended returns an error when a number or word that stands alone goes on with what is no part of it, as 007 does.
func (r *reader) ended() error {
	if len(r.decoder.UnreadBuffer()) == 0 {
		r.decoder.PeekKind()
	}
	rest := r.decoder.UnreadBuffer()
	if len(rest) == 0 || rawjson.IsBlank(rest[0]) {
		return nil
	}
	return &notJSONError{
		offset: r.start + r.decoder.InputOffset(), err: fmt.Errorf("invalid character %q after a value (expecting a blank)", rest[0]),
	}
}

// broken words an error of the decoder. It is io.EOF when there is no more.
func (r *reader) broken(err error) error {
	if r.feed != nil && r.feed.err != nil && r.feed.err != io.EOF {
		return r.feed.err
	}
	rest := r.decoder.UnreadBuffer()
	var bad *jsontext.SyntacticError
	if !errors.As(err, &bad) || errors.Is(err, io.ErrUnexpectedEOF) {
		if len(bytes.TrimSpace(rest)) == 0 && r.decoder.StackDepth() == 0 {
			return io.EOF
		}
		return &notJSONError{offset: r.start + r.decoder.InputOffset() + int64(len(rest)), err: io.ErrUnexpectedEOF}
	}
	cause := bad.Err
	if at := bad.ByteOffset - r.decoder.InputOffset(); at >= 0 && at < int64(len(rest)) {
		if c, n := utf8.DecodeRune(rest[at:]); c == utf8.RuneError && n == 1 {
			cause = errUTF8
		}
	}
	return &notJSONError{offset: r.start + bad.ByteOffset, err: cause}
}

// array calls each before every element of the array that comes next.
func (r *reader) array(each func(i int) error) error {
	if _, err := r.decoder.ReadToken(); err != nil {
		return r.broken(err)
	}
	for i := 0; ; i++ {
		kind, err := r.kind()
		if err != nil {
			return err
		}
		if kind == jsontext.KindEndArray {
			return r.leave()
		}
		if err := each(i); err != nil {
			return err
		}
	}
}

// object calls each after the name, which it is given in quotes, and before the value of every member of the object that comes next.
// The name is only valid until something is read.
func (r *reader) object(each func(quoted []byte) error) error {
	if _, err := r.decoder.ReadToken(); err != nil {
		return r.broken(err)
	}
	for {
		kind, err := r.kind()
		if err != nil {
			return err
		}
		if kind == jsontext.KindEndObject {
			return r.leave()
		}
		quoted, err := r.decoder.ReadValue()
		if err != nil {
			return r.broken(err)
		}
		if err := each(quoted); err != nil {
			return err
		}
	}
}

// leave goes past the end of an array or object.
func (r *reader) leave() error {
	if _, err := r.decoder.ReadToken(); err != nil {
		return r.broken(err)
	}
	return nil
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
	s := &selector{reader: newReader(f), path: first, take: take}
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

// opens reports whether the data begins like an object or array.
func opens(data []byte) bool {
	data = bytes.TrimLeft(data, " \t\r\n")
	return len(data) > 0 && (data[0] == '{' || data[0] == '[')
}

// readsAsJSON reports whether the data is JSON as far as it goes.
func readsAsJSON(data []byte) bool {
	dec := jsontext.NewDecoder(bytes.NewReader(data), anyNames)
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
