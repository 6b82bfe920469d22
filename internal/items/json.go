package items

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"prodigy/internal/rawjson"
)

// reader reads JSON values one after the other. It may read ahead in the data.
type reader struct {
	decoder jsontext.Decoder

	// input is what the decoder reads, from its offset start. It is nil if the decoder reads data, a single document.
	input *peekReader
	start int64
	data  bytes.Buffer

	// out holds the value that was read last, in compact form.
	out []byte
}

// anyNames allows duplicate names in an object.
var anyNames = jsontext.AllowDuplicateNames(true)

func newReader(f *peekReader) *reader {
	r := &reader{input: f, start: f.off}
	r.decoder.Reset(f, anyNames)
	return r
}

// open makes r read data.
func (r *reader) open(data []byte) {
	r.data = *bytes.NewBuffer(data)
	r.decoder.Reset(&r.data, anyNames)
}

// kind returns the kind of the next token. The error is io.EOF at the end.
func (r *reader) kind() (jsontext.Kind, error) {
	kind := r.decoder.PeekKind()
	if kind == jsontext.KindInvalid {
		_, err := r.decoder.ReadToken()
		return kind, r.syntaxError(err)
	}
	return kind, nil
}

// value reads the next value in compact form. It is only valid until the next read.
func (r *reader) value() ([]byte, error) {
	raw, err := r.decoder.ReadValue()
	if err != nil {
		return nil, r.syntaxError(err)
	}
	bare := isBare(raw[0])
	raw = rawjson.Compact(&r.out, raw)
	// raw may lie in the buffer of the decoder, which checkEnd moves when it reads on.
	if bare && r.decoder.StackDepth() == 0 {
		r.out = append(r.out[:0], raw...)
		return r.out, r.checkEnd()
	}
	return raw, nil
}

// skip skips the next value. It holds no more than one string of it in memory.
func (r *reader) skip() error {
	kind, err := r.kind()
	if err != nil {
		return err
	}
	if err := r.decoder.SkipValue(); err != nil {
		return r.syntaxError(err)
	}
	if isBare(byte(kind)) && r.decoder.StackDepth() == 0 {
		return r.checkEnd()
	}
	return nil
}

// isBare reports whether a value that starts with c is a number or a literal, which has no end mark of its own.
func isBare(c byte) bool { return c != '{' && c != '[' && c != '"' }

// checkEnd returns an error if a number or literal at the top level is followed by more than a blank, as in 007.
func (r *reader) checkEnd() error {
	if len(r.decoder.UnreadBuffer()) == 0 {
		r.decoder.PeekKind()
	}
	rest := r.decoder.UnreadBuffer()
	if len(rest) == 0 || rawjson.IsBlank(rest[0]) {
		return nil
	}
	return &notJSONError{
		offset: r.start + r.decoder.InputOffset(), err: fmt.Errorf("invalid character %q after a value (expecting a space)", rest[0]),
	}
}

// syntaxError converts an error of the decoder. It returns io.EOF at the end of the data, and an error of the input as
// it is, since the data that it cut off is not to blame. Any other is a *notJSONError.
func (r *reader) syntaxError(err error) error {
	if r.input != nil && r.input.err != nil && r.input.err != io.EOF {
		return r.input.err
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

// parts reads the next value, an array or object. It calls each before every element, or before the value of every
// member with its name in quotes, which is only valid until the next read.
func (r *reader) parts(each func(i int, quoted []byte) error) error {
	begin, err := r.decoder.ReadToken()
	if err != nil {
		return r.syntaxError(err)
	}
	ofObject := begin.Kind() == jsontext.KindBeginObject
	for i := 0; ; i++ {
		kind, err := r.kind()
		if err != nil {
			return err
		}
		var quoted []byte
		switch {
		case kind == jsontext.KindEndArray || kind == jsontext.KindEndObject:
			if _, err := r.decoder.ReadToken(); err != nil {
				return r.syntaxError(err)
			}
			return nil
		case ofObject:
			if quoted, err = r.decoder.ReadValue(); err != nil {
				return r.syntaxError(err)
			}
		}
		if err := each(i, quoted); err != nil {
			return err
		}
	}
}

// readsAsJSON reports whether data is JSON or the beginning of it.
func readsAsJSON(data []byte) bool {
	dec := jsontext.NewDecoder(bytes.NewReader(data), anyNames)
	for {
		if _, err := dec.ReadToken(); err != nil {
			return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		}
	}
}

var errUTF8 = errors.New("invalid UTF-8")

// notJSONError is an error in the data, at an offset in bytes.
type notJSONError struct {
	offset int64
	err    error
}

func (e *notJSONError) Error() string {
	if errors.Is(e.err, io.ErrUnexpectedEOF) {
		return "unexpected end of JSON"
	}
	if errors.Is(e.err, errUTF8) {
		return "not valid UTF-8"
	}
	return fmt.Sprintf("not JSON: %v", e.err)
}
