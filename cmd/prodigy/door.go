package main

import (
	"bytes"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ownMark stands in text on its way to the terminal for the escape character of prodigy's own colours and cursor moves. It is no UTF-8, so that
// nothing of a workflow, an item or a record can hold it, and every escape character that is met is of others.
const ownMark = "\xff"

// safeWriter replaces control characters in text for people, so that no item or log can control the terminal. Only prodigy's own escape
// sequences, which begin with ownMark, pass. It must not be used by several goroutines at once.
type safeWriter struct {
	w    io.Writer
	held []byte // the beginning of a character or a sequence whose rest has not come yet
}

// longestOwn is the maximum length of one of prodigy's own sequences, in bytes. The writer waits no longer for its end.
const longestOwn = 16

func (d *safeWriter) Write(p []byte) (int, error) {
	text := p
	if len(d.held) > 0 {
		text = append(d.held, p...)
	}
	cut := len(text) - unfinished(text)
	var b bytes.Buffer
	for rest := text[:cut]; len(rest) > 0; {
		at := bytes.IndexByte(rest, ownMark[0])
		if at < 0 {
			at = len(rest)
		}
		b.WriteString(visibleLines(string(rest[:at])))
		if rest = rest[at:]; len(rest) == 0 {
			break
		}
		n := ownLength(rest)
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

// ownLength returns the length of the sequence that begins with an ownMark: a colour, a move or a return of the cursor; 0 for anything else.
func ownLength(text []byte) int {
	if len(text) > 1 && text[1] == '\r' {
		return 2
	}
	if len(text) < 2 || text[1] != '[' {
		return 0
	}
	for i := 2; i < min(len(text), longestOwn); i++ {
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
	tail := text[max(len(text)-longestOwn+1, 0):]
	if i := bytes.LastIndexByte(tail, ownMark[0]); i >= 0 {
		switch n := ownLength(tail[i:]); {
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

// marked is the output of the library that moves the cursor: it marks the library's sequences as prodigy's own. The text between them
// is safe already.
type marked struct{ w io.Writer }

func (m marked) Write(p []byte) (int, error) {
	_, err := m.w.Write(bytes.ReplaceAll(p, []byte{'\x1b'}, []byte(ownMark)))
	return len(p), err
}

// visibleLines makes text of several lines visible, as visible does one line.
func visibleLines(s string) string {
	if !strings.ContainsFunc(s, isHidden) && utf8.ValidString(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r != '\n' && isHidden(r) {
			return utf8.RuneError
		}
		return r
	}, strings.ReplaceAll(s, "\r\n", "\n"))
}

// visible replaces what a terminal would obey or not show by a placeholder, also the ends of lines. Tabs stay.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if isHidden(r) {
			return utf8.RuneError
		}
		return r
	}, s)
}

// isHidden reports whether r is a control character but a tab, or one that turns the direction of text or has no width, with which text can
// look like another. The joiners of scripts and emoji stay.
func isHidden(r rune) bool {
	switch {
	case r == '\t' || ' ' <= r && r < 0x7f:
		return false
	case r < 0xa0:
		return true
	case r == '\u200c', r == '\u200d':
		return false
	}
	return unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) && !unicode.In(r, unicode.Prepended_Concatenation_Mark) && r != '\u00ad'
}
