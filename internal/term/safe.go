package term

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"

	"prodigy/internal/check"
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
	for i, part := range strings.Split(string(text[:cut]), escapeMark) {
		if i > 0 {
			own := ownSequence().FindString(part)
			switch own {
			case "":
				b.WriteRune(utf8.RuneError)
			case "\r":
				b.WriteByte('\r')
			default:
				b.WriteString("\x1b" + own)
			}
			part = part[len(own):]
		}
		b.WriteString(VisibleLines(part))
	}
	d.held = bytes.Clone(text[cut:])
	if _, err := d.w.Write(b.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// ownSequence matches what follows an escapeMark: a colour, a move or a return of the cursor.
var ownSequence = check.Regexp(`^(?:\r|\[[0-9;]{0,13}[mAJK])`)

// unfinished returns how many bytes at the end of text may be the beginning of a longer character or sequence.
func unfinished(text []byte) int {
	tail := text[max(len(text)-longestSequence+1, 0):]
	if i := bytes.LastIndexByte(tail, escapeMark[0]); i >= 0 {
		left := tail[i+1:]
		own := ownSequence().Find(left)
		if own == nil && len(bytes.TrimRight(left, "[;0123456789")) == 0 {
			return len(tail) - i
		}
		if own != nil && len(own) == len(left) {
			return 0
		}
	}
	if bytes.HasSuffix(tail, []byte("\r")) {
		return 1
	}
	return len(tail) - check.WholeEnd(tail)
}

// cursorWriter is the output of the library that moves the cursor. It marks the library's sequences as prodigy's own.
// The text between them is safe already.
type cursorWriter struct{ w io.Writer }

func (m cursorWriter) Write(p []byte) (int, error) {
	_, err := m.w.Write(bytes.ReplaceAll(p, []byte{'\x1b'}, []byte(escapeMark)))
	return len(p), err
}
