package items

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"prodigy/internal/rawjson"
	"prodigy/internal/workflow"
)

// read reads data in a format; "" means that it is sniffed. A byte order mark is skipped.
func (f *peekReader) read(format string, p path, emit func([]byte) error) error {
	// A byte order mark, which some editors write before UTF-8.
	const mark = "\uFEFF"
	for len(f.buf) < len(mark) && f.err == nil && strings.HasPrefix(mark, string(f.buf)) {
		f.more()
	}
	if bytes.HasPrefix(f.buf, []byte(mark)) {
		f.skip(len(mark))
	}
	if !p.empty() && (format == "" || format == "json" || format == "jsonl") { // with a path the data can only be JSON
		return f.each(p, p, emit)
	}
	switch format {
	case "":
		return f.valuesOrText(emit)
	case "json":
		return f.values(emit, f.loneArray())
	case "jsonl": // here an array is an item
		return f.values(emit, false)
	case "csv":
		return f.rows(cmp.Or(f.delimiter, ','), p, emit)
	case "tsv":
		return f.rows('\t', p, emit)
	case "lines":
		return f.lines(p, emit)
	case "nul":
		return f.records(0, p, emit)
	case "yaml":
		return f.yaml(p, emit)
	}
	panic("BUG: format " + format + " has no reader")
}

// valuesOrText calls emit with each JSON value, and with each line that is not JSON as a text. Only objects
// and arrays span lines.
func (f *peekReader) valuesOrText(emit func([]byte) error) error {
	if f.loneArray() {
		return f.values(emit, true)
	}
	for f.skipBlank() {
		line, whole := f.line(lookAhead)
		var err error
		switch {
		case whole && rawjson.Valid(line):
			err = emit(rawjson.Compact(&f.out, bytes.TrimSpace(line)))
			f.skip(len(line))
		case bytes.ContainsAny(bytes.TrimSpace(line)[:1], "{[") && readsAsJSON(line): // unlike "[INFO] done"
			err = f.longValue(emit)
		default:
			err = f.text(emit)
		}
		if err != nil {
			return err
		}
	}
	return f.failure()
}

// longValue emits a value that spans lines.
func (f *peekReader) longValue(emit func([]byte) error) error {
	r := newReader(f)
	raw, err := r.value()
	if err != nil {
		return err
	}
	if rest := r.decoder.UnreadBuffer(); len(rest) > 0 { // which it has read ahead
		f.buf = append(bytes.Clone(rest), f.buf...)
		f.off -= int64(len(rest))
	}
	return emit(raw)
}

// loneArray reports whether the data is a single array, whose elements are the items. An array that does not
// end on its first line, or within lookAhead, counts as one.
func (f *peekReader) loneArray() bool {
	if !f.skipBlank() {
		return false
	}
	line, whole := f.line(lookAhead)
	if bytes.TrimSpace(line)[0] != '[' {
		return false
	}
	if !whole || !rawjson.Valid(line) {
		return readsAsJSON(line)
	}
	// The array ends on its line. It is alone if nothing but space follows up to the end of the data.
	for n := len(line); ; f.more() {
		if len(bytes.TrimSpace(f.buf[n:])) > 0 {
			return false
		}
		if f.err != nil {
			return true
		}
	}
}

// lines emits each line as a text, without its end. Blank lines are skipped.
func (f *peekReader) lines(p path, emit func([]byte) error) error {
	if f.delimiter != 0 {
		return f.records(byte(f.delimiter), p, emit)
	}
	emit = p.evaluator(emit)
	for f.skipBlank() {
		if err := f.text(emit); err != nil {
			return err
		}
	}
	return f.failure()
}

// records emits each text that ends with this byte, such as the NUL of find -print0. Empty ones are skipped. The last
// one needs no such end: it may be an end of line instead, as echo a,b writes it.
func (f *peekReader) records(end byte, p path, emit func([]byte) error) error {
	emit = p.evaluator(emit)
	for {
		record, _ := f.until(end, math.MaxInt)
		if len(record) == 0 {
			return f.failure()
		}
		text, ended := bytes.CutSuffix(record, []byte{end})
		if !ended && end != 0 {
			text = bytes.TrimRight(text, "\r\n")
		}
		if len(text) == 0 {
			f.skip(len(record))
		} else if err := f.quoted(record, text, emit); err != nil {
			return err
		}
	}
}

// text emits the next line as a text.
func (f *peekReader) text(emit func([]byte) error) error {
	line, _ := f.line(math.MaxInt)
	text, ended := bytes.CutSuffix(line, []byte("\n"))
	if ended {
		text = bytes.TrimSuffix(text, []byte("\r"))
	}
	return f.quoted(line, text, emit)
}

// quoted emits a text, or the list of its columns, and skips record, which begins with it.
func (f *peekReader) quoted(record, text []byte, emit func([]byte) error) error {
	var err error
	if f.out, err = jsontext.AppendQuote(f.out[:0], text); err != nil {
		return &notJSONError{offset: f.off + int64(invalidAt(text)), err: errUTF8}
	}
	if f.split != nil {
		f.out = rawjson.Of(f.split.Split(string(text), -1))
	}
	f.skip(len(record))
	return emit(f.out)
}

// invalidAt returns the offset of the first byte that is not UTF-8.
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

// yaml emits YAML documents as JSON: the elements of a list that is the only document, else each document.
// Empty documents are skipped. A path is evaluated on each document.
func (f *peekReader) yaml(p path, emit func([]byte) error) error {
	emit = p.evaluator(emit)
	// The first document is held back until a second one shows that it is an item.
	var first json.RawMessage
	count := 0
	err := workflow.Documents(f, func(document json.RawMessage) error {
		if string(document) == "null" {
			return nil
		}
		switch count++; count {
		case 1:
			first = document
			return nil
		case 2:
			if err := emit(first); err != nil {
				return err
			}
		}
		return emit(document)
	})
	switch {
	case f.failure() != nil && !errors.Is(err, errStop):
		return f.failure()
	case err != nil || count != 1:
		return err
	case p.empty() && first[0] == '[':
		for element := range rawjson.Elements(first) {
			if err := emit(element); err != nil {
				return err
			}
		}
		return nil
	}
	return emit(first)
}
