package term

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"
)

// escapeMark stands in text on its way to the terminal for the escape character of prodigy's own colours and cursor
// moves. It is not UTF-8, so that nothing of a workflow, an item or a record can hold it, and every escape character
// that is met belongs to others.
const escapeMark = "\xff"

// SafeWriter replaces control characters in text for people, so that no item or log can control the terminal. Only
// prodigy's own escape sequences, which begin with escapeMark, pass. It must not be used by several goroutines at once.
type SafeWriter struct {
	w    io.Writer
	held []byte // the beginning of a character or a sequence whose rest has not come yet
}

// NewSafeWriter returns a SafeWriter that writes to w.
func NewSafeWriter(w io.Writer) *SafeWriter { return &SafeWriter{w: w} }

// longestSequence is the maximum length of one of prodigy's own sequences, in bytes. The writer waits no longer for its
// end.
const longestSequence = 16

// Write implements io.Writer.
func (d *SafeWriter) Write(p []byte) (int, error) {
	text := p
	if len(d.held) > 0 {
		text = append(d.held, p...)
	}
	cut := len(text) - unfinished(text)
	var b bytes.Buffer
	for rest := text[:cut]; len(rest) > 0; {
		at := bytes.IndexByte(rest, escapeMark[0])
		if at < 0 {
			at = len(rest)
		}
		b.WriteString(VisibleLines(string(rest[:at])))
		if rest = rest[at:]; len(rest) == 0 {
			break
		}
		n := ownSequence(rest)
		switch {
		case n == 0:
			b.WriteRune(utf8.RuneError)
			n = 1
		case rest[1] == '\r':
			b.WriteByte('\r')
		default:
			b.WriteByte('\x1b')
			b.Write(rest[1:n])
		}
		rest = rest[n:]
	}
	d.held = bytes.Clone(text[cut:])
	if _, err := d.w.Write(b.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// ownSequence returns the length of the sequence that begins with an escapeMark: a colour, a move or a return of the
// cursor. It is 0 for anything else.
func ownSequence(text []byte) int {
	if len(text) > 1 && text[1] == '\r' {
		return 2
	}
	if len(text) < 2 || text[1] != '[' {
		return 0
	}
	for i := 2; i < min(len(text), longestSequence); i++ {
		switch c := text[i]; {
		case c == ';' || '0' <= c && c <= '9':
		case strings.IndexByte("mAJK", c) >= 0:
			return i + 1
		default:
			return 0
		}
	}
	return 0
}

// unfinished returns how many bytes at the end of text may be the beginning of a longer character or sequence.
func unfinished(text []byte) int {
	tail := text[max(len(text)-longestSequence+1, 0):]
	if i := bytes.LastIndexByte(tail, escapeMark[0]); i >= 0 {
		switch n := ownSequence(tail[i:]); {
		case n == len(tail)-i:
			return 0
		case n == 0 && len(bytes.TrimRight(tail[i+1:], "[;0123456789")) == 0:
			return len(tail) - i
		}
	}
	if bytes.HasSuffix(tail, []byte("\r")) {
		return 1
	}
	for n := 1; n < utf8.UTFMax && n <= len(tail); n++ {
		if end := tail[len(tail)-n:]; utf8.RuneStart(end[0]) {
			if utf8.FullRune(end) {
				return 0
			}
			return n
		}
	}
	return 0
}

// cursorWriter is the output of the library that moves the cursor. It marks the library's sequences as prodigy's own.
// The text between them is safe already.
type cursorWriter struct{ w io.Writer }

func (m cursorWriter) Write(p []byte) (int, error) {
	_, err := m.w.Write(bytes.ReplaceAll(p, []byte{'\x1b'}, []byte(escapeMark)))
	return len(p), err
}
