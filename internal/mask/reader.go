package mask

import (
	"bytes"
	"encoding/binary"
	"html"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Limits of what is read as one spelling or as one gap. They bound what a Writer holds back.
const (
	maxBackslashes = 8  // of one escape: a JSON text in a JSON text in a JSON text
	maxEntity      = 31 // letters of an entity
	maxIndent      = 64
	maxQuotes      = 8
	maxColors      = 4 // escape sequences of a terminal that follow each other
)

// reading is one way to read the start of a text: its first n bytes stand for value.
type reading struct {
	value [utf8.UTFMax]byte
	size  int // of value
	n     int
}

func (r *reading) bytes() []byte { return r.value[:r.size] }

// reader reads the start of a text as the encodings in use write characters: URLs, JSON, XML, shells,
// programming languages, dumps. It decodes and knows no secrets, so it needs no list of the ways to write one.
type reader struct {
	text []byte
	// more is set if text may go on.
	more bool
	// partial is set if more text could give more readings.
	partial bool
	found   []reading
}

// read finds the readings of the start of text, besides that as the byte which it is.
func (r *reader) read(text []byte, more bool) {
	r.text, r.more, r.partial, r.found = text, more, false, r.found[:0]
	switch text[0] {
	case '\\':
		r.backslash()
	case '%':
		// The escapes of URLs, and the %u20AC of JavaScript's escape.
		r.hexByte(1)
		if r.at(1) == 'u' || r.at(1) == 'U' {
			r.hexRune(2, 4, func(end int) (int, bool) { return end + 2, r.at(end) == '%' && r.at(end+1)|0x20 == 'u' })
		}
	case '&':
		r.entity()
	case '+':
		r.add(1, ' ')
	case '"', '\'': // doubled in CSV and SQL
		if r.at(1) == text[0] {
			r.add(2, text[0])
		}
	case ' ': // what a shell makes of the end of a line outside quotes
		r.add(1, '\n')
		r.add(1, '\t')
	case '\n', '\r':
		r.newline()
	}
}

// marksReading reports whether a byte can begin something else than itself.
func marksReading(c byte) bool { return strings.IndexByte("\\%&+\"' \n\r\xef", c) >= 0 } // \xef begins U+FFFD

func (r *reader) add(n int, value ...byte) {
	next := reading{size: len(value), n: n}
	copy(next.value[:], value)
	r.found = append(r.found, next)
}

// addRune adds a character. Below 256 its number may be that of a byte as well.
func (r *reader) addRune(n int, c rune) {
	switch {
	case 0xdc80 <= c && c <= 0xdcff: // as Python writes a byte that is no UTF-8
		r.add(n, byte(c))
		return
	case c < 0 || c > utf8.MaxRune || utf16.IsSurrogate(c):
		return
	case 0x80 <= c && c <= 0xff:
		r.add(n, byte(c))
	}
	r.add(n, utf8.AppendRune(nil, c)...)
}

// at returns the byte at i, or 0. A text that ends before is partial.
func (r *reader) at(i int) byte {
	if i < len(r.text) {
		return r.text[i]
	}
	r.partial = r.partial || r.more
	return 0
}

// digits reads up to limit digits from i on, and returns their value and how many there are.
func (r *reader) digits(i, limit int, base int32) (value rune, n int) {
	for n < limit {
		d := digit(r.at(i + n))
		if d < 0 || d >= base {
			break
		}
		value = value*base + d
		n++
	}
	return value, n
}

// digit returns the value of a hexadecimal digit, or -1.
func digit(c byte) int32 {
	switch {
	case '0' <= c && c <= '9':
		return int32(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int32(c|0x20-'a') + 10
	}
	return -1
}

// hexByte reads two hexadecimal digits at i.
func (r *reader) hexByte(i int) {
	if v, n := r.digits(i, 2, 16); n == 2 {
		r.addRune(i+2, v)
	}
}

// hexRune reads count hexadecimal digits at i, and the same behind marker when they are the first half of a
// surrogate pair.
func (r *reader) hexRune(i, count int, marker func(i int) (next int, ok bool)) {
	v, n := r.digits(i, count, 16)
	if n < count {
		return
	}
	if end := i + n; utf16.IsSurrogate(v) && v < 0xdc00 {
		next, ok := marker(end)
		if !ok {
			return
		}
		if low, n := r.digits(next, count, 16); n == count {
			r.addRune(next+n, utf16.DecodeRune(v, low))
		}
		return
	}
	r.addRune(i+n, v)
}

// backslashes returns how many there are at i.
func (r *reader) backslashes(i int) (n int) {
	for n < maxBackslashes && r.at(i+n) == '\\' {
		n++
	}
	return n
}

// backslash reads the escapes of JSON, shells and programming languages. Escaping the text again doubles the
// backslashes in front, so that their number says nothing.
func (r *reader) backslash() {
	i := r.backslashes(0)
	for n := 2; n <= i; n *= 2 {
		r.add(n, '\\')
	}
	c := r.at(i)
	if i == len(r.text) {
		return
	}
	switch {
	case c == 'x' || c == 'u':
		r.numbered(i, c)
	case c == 'U':
		r.hexRune(i+1, 8, noMarker)
	case '0' <= c && c <= '7':
		r.octal(i)
	}
	if isWord(c) && c != '_' {
		if v := escaped(c); v != 0 {
			r.addRune(i+1, v)
		}
		return
	}
	r.add(i+1, c)
}

func noMarker(int) (int, bool) { return 0, false }

// numbered reads what follows the backslashes of \x41, \x{41}, \u0041 and \u{41}, where mark is at i.
func (r *reader) numbered(i int, mark byte) {
	if r.at(i+1) == '{' {
		if v, n := r.digits(i+2, 8, 16); n > 0 && r.at(i+2+n) == '}' {
			r.addRune(i+n+3, v)
		}
		return
	}
	if mark == 'u' {
		r.hexRune(i+1, 4, func(end int) (int, bool) {
			k := r.backslashes(end)
			return end + k + 1, k > 0 && r.at(end+k) == 'u'
		})
		return
	}
	if v, n := r.digits(i+1, 1, 16); n == 1 {
		r.addRune(i+2, v)
	}
	r.hexByte(i + 1)
}

// octal reads one to three digits, or four of which the first is 0.
func (r *reader) octal(i int) {
	limit := 3
	if r.at(i) == '0' {
		limit = 4
	}
	for n := 1; n <= limit; n++ {
		v, got := r.digits(i, n, 8)
		if got < n {
			return
		}
		if v <= 0xff {
			r.addRune(i+n, v)
		}
	}
}

// escaped returns what a letter behind a backslash stands for, or 0.
func escaped(c byte) rune {
	if i := strings.IndexByte("ntrabfveE", c); i >= 0 {
		return rune("\n\t\r\a\b\f\v\x1b\x1b"[i])
	}
	return 0
}

// entity reads the entities of HTML and XML.
func (r *reader) entity() {
	if r.at(1) == '#' {
		i, base := 2, int32(10)
		if r.at(2)|0x20 == 'x' {
			i, base = 3, 16
		}
		if v, n := r.digits(i, 8, base); n > 0 && r.at(i+n) == ';' {
			r.addRune(i+n+1, v)
		}
		return
	}
	n := 0
	for n < maxEntity && isWord(r.at(1+n)) {
		n++
	}
	if n == 0 || r.at(1+n) != ';' {
		return
	}
	if value := html.UnescapeString(string(r.text[:n+2])); len(value) <= utf8.UTFMax && (value[0] != '&' || value == "&") {
		r.add(n+2, []byte(value)...)
	}
}

// newline reads the end of a line, which may stand for a space, and the indentation of the next.
func (r *reader) newline() {
	i := 0
	if r.text[0] == '\r' {
		if r.at(1) != '\n' {
			return
		}
		i = 1
	}
	i++
	lines := func(n int) {
		r.add(n, '\n')
		r.add(n, '\r')
		r.add(n, '\r', '\n')
	}
	lines(i)
	r.add(i, ' ')
	end := i
	for end-i < maxIndent && (r.at(end) == ' ' || r.at(end) == '\t' || r.at(end) == '\n') {
		end++
	}
	if end > i {
		lines(end)
		r.add(end, ' ')
	}
}

// gaps appends to ends where the next character may begin after something that stands for nothing: quotes that
// end and begin again, a line that is continued, colours of a terminal. When broken, that may be the end of a
// line as well, and ofBytes what stands between two bytes in hexadecimal.
func (r *reader) gaps(text []byte, more, broken, ofBytes bool, ends []int) []int {
	r.text, r.more, r.partial = text, more, false
	if ofBytes {
		ends = r.betweenBytes(ends)
	}
	switch text[0] {
	case '\'', '"', '$':
		ends = r.quotes(ends)
	case '\\':
		ends = r.quotes(ends)
		ends = r.lineEnd(r.backslashes(0), ends)
	case '\r', '\n':
		if broken {
			ends = r.lineEnd(0, ends)
		}
	case 0x1b:
		ends = r.colors(ends)
	}
	return ends
}

func marksGap(c byte) bool { return strings.IndexByte("'\"$\\\r\n\x1b", c) >= 0 }

// betweenBytes appends where a text goes on behind the first of two bytes: "73 33", "73:33", "0x73, 0x33".
func (r *reader) betweenBytes(ends []int) []int {
	i := 0
	for i < maxIndent && r.at(i) != 0 && strings.IndexByte(" \t\n:-,", r.at(i)) >= 0 {
		i++
	}
	if i == 0 {
		return ends
	}
	ends = append(ends, i)
	if r.at(i) == '0' && r.at(i+1) == 'x' {
		ends = append(ends, i+2)
	}
	return ends
}

// lineEnd appends where a line that ends at i goes on.
func (r *reader) lineEnd(i int, ends []int) []int {
	if r.at(i) == '\r' {
		i++
	}
	if r.at(i) != '\n' {
		return ends
	}
	i++
	ends = append(ends, i)
	first := i
	for i-first < maxIndent && (r.at(i) == ' ' || r.at(i) == '\t') {
		i++
	}
	if i > first {
		ends = append(ends, i)
	}
	return ends
}

// quotes appends where a text goes on behind quotes: 'a'\”b', 'a'$'\n”b', and behind the joints of texts that
// are written in parts.
func (r *reader) quotes(ends []int) []int {
	for i := 0; i < maxQuotes; {
		switch c := r.at(i); {
		case c == '\'' || c == '"':
			i++
			ends = append(ends, i)
			if end := r.joint(i); end > 0 {
				ends = append(ends, end)
			}
		case c == '$' && (r.at(i+1) == '\'' || r.at(i+1) == '"'), c == '\\' && i < maxQuotes-1:
			i++
		default:
			return ends
		}
	}
	return ends
}

// joint returns where the second part of "a" + "b" begins, or of two parts on lines of their own, when the
// first ends at i; else 0.
func (r *reader) joint(i int) int {
	joined, first := false, i
	for i-first < maxIndent {
		switch r.at(i) {
		case '+', '.', '\n':
			joined = true
		case ' ', '\t', '\r':
		case '\'', '"':
			if joined {
				return i + 1
			}
			return 0
		case 'b', 'u', 'r', 'f':
			if next := r.at(i + 1); joined && (next == '\'' || next == '"') {
				return i + 2
			}
			return 0
		default:
			return 0
		}
		i++
	}
	return 0
}

// colors appends where a text goes on behind the escape sequences that colour it.
func (r *reader) colors(ends []int) []int {
	i := 0
	for range maxColors {
		if r.at(i) != 0x1b || r.at(i+1) != '[' {
			break
		}
		n := 0
		for n < maxIndent && bytes.IndexByte([]byte("0123456789;"), r.at(i+2+n)) >= 0 {
			n++
		}
		if c := r.at(i + 2 + n); c != 'm' && c != 'K' {
			break
		}
		i += n + 3
		ends = append(ends, i)
	}
	return ends
}

// prefixes remembers prefixes of texts with which no secret begins. In ordinary text the same ones return all
// the time, so that most text is never read by a form. It is a cache of fixed size: a new prefix takes the slot
// of an older one.
type prefixes [1 << prefixBits]uint64

// slot returns where the prefix of b is kept, and what is kept of it there, which is never 0: that is an empty slot.
func (p *prefixes) slot(b []byte) (at *uint64, key uint64) {
	prefix := binary.LittleEndian.Uint32(b)
	return &p[prefix*2654435761>>(32-prefixBits)], 1<<32 | uint64(prefix)
}

const (
	prefixLen  = 4
	prefixBits = 13 // of the hash: 64 KiB of prefixes
)

// isWord reports whether a byte is one of a word: a letter, a digit or an underscore.
func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
