package items

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"prodigy/internal/workflow"
)

// reader reads JSON values from a feed. It reads ahead; back returns the rest to the feed.
type reader struct {
	*jsontext.Decoder
	feed *feed
	base int64
}

func (f *feed) reader() *reader {
	return &reader{Decoder: jsontext.NewDecoder(f, jsontext.AllowDuplicateNames(true)), feed: f, base: f.off}
}

func (r *reader) back() {
	rest := bytes.Clone(r.UnreadBuffer())
	r.feed.off -= int64(len(rest))
	r.feed.buf = append(rest, r.feed.buf...)
}

// fault gives an error of the decoder its place in the data.
func (r *reader) fault(err error) error {
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return err
	}
	return &notJSONError{offset: r.base + syntax.ByteOffset, err: syntax.Err}
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
	r := f.reader()
	s := &selector{dec: r.Decoder, path: first, take: take}
	for {
		err := s.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return r.fault(err)
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
