package items

import (
	"bytes"
	"io"
	"math"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// lines takes each line as a text, without the end of the line. Lines that hold only blanks count for nothing.
func (f *feed) lines(p path, take func([]byte) error) error {
	take = p.on(take)
	for f.blank() {
		if err := f.text(take); err != nil {
			return err
		}
	}
	return f.failure()
}

// nul takes each text that a NUL byte ends, whatever else it holds: so write find -print0 and git ls-files -z. Empty ones count for nothing.
func (f *feed) nul(p path, take func([]byte) error) error {
	take = p.on(take)
	for {
		record, _ := f.until(0, math.MaxInt)
		if len(record) == 0 {
			return f.failure()
		}
		if text := bytes.TrimSuffix(record, []byte{0}); len(text) == 0 {
			f.skip(len(record))
		} else if err := f.quoted(record, text, take); err != nil {
			return err
		}
	}
}

// failure is the error that ended the data, if it was one.
func (f *feed) failure() error {
	if f.err == io.EOF {
		return nil
	}
	return f.err
}

// text takes a line as text.
func (f *feed) text(take func([]byte) error) error {
	line, _ := f.line(math.MaxInt)
	return f.quoted(line, bytes.TrimRight(line, "\r\n"), take)
}

// quoted takes a text, and the record that it is the beginning of.
func (f *feed) quoted(record, text []byte, take func([]byte) error) error {
	var err error
	if f.out, err = jsontext.AppendQuote(f.out[:0], text); err != nil {
		return &notJSONError{offset: f.off + int64(invalidAt(text)), err: errUTF8}
	}
	f.skip(len(record))
	return take(f.out)
}

func invalidAt(text []byte) int {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(text)
}
