package mask

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// brokenFrom is the length from which a secret is also found when its lines were broken, as fold does it, or
// joined. In a short one every accident of two lines would count.
const brokenFrom = 16

// form is a family of encodings of one secret, as a sequence of units: a text can spell each unit in several
// ways and have a gap in front of all but the first.
type form struct {
	kind   kind
	secret []byte
	units  []unit // of digits
	set    *notation
}

type kind uint8

const (
	asWord   kind = iota // the bytes themselves, where no letter, digit or underscore stands beside them
	asText               // characters, each as it is or escaped
	asDigits             // groups of bits: base64, base32, hexadecimal
)

// unit is the bits of a secret that one digit has. Those outside of mask belong to what is around the secret.
type unit struct{ value, mask uint16 }

// is reports whether a value has the bits that the unit asks for.
func (u unit) is(v int) bool { return uint16(v)&u.mask == u.value }

// notation says how digits are written.
type notation struct {
	// bits is how many bits a digit stands for.
	bits int
	// values are those of the digits by their letters, or -1.
	values [256]int8
}

// alphabet returns the notation whose digits are letters. Several texts of letters are several ways to write the same
// digits.
func alphabet(bits int, letters ...string) *notation {
	n := &notation{bits: bits}
	for i := range n.values {
		n.values[i] = -1
	}
	for _, s := range letters {
		for i := range len(s) {
			n.values[s[i]] = int8(i)
		}
	}
	return n
}

const (
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits = "0123456789"
)

func notations() []*notation {
	letters := upper + strings.ToLower(upper) + digits
	return []*notation{
		alphabet(6, letters+"+/", letters+"-_"),
		alphabet(5, upper+"234567"),
		alphabet(5, digits+upper[:22]),
		alphabet(4, digits+"ABCDEF", digits+"abcdef"),
	}
}

// formsOf returns the forms in which a secret is looked for.
func formsOf(secret string, all []*notation) []*form {
	if Short(secret) {
		return []*form{{kind: asWord, secret: []byte(secret)}}
	}
	forms := []*form{{kind: asText, secret: []byte(secret)}}
	for _, n := range all {
		forms = append(forms, digitForms(secret, n)...)
	}
	if !strings.Contains(secret, "\n") {
		return forms
	}
	for line := range strings.Lines(secret) {
		if line = strings.TrimSpace(line); len(line) >= leastLine {
			forms = append(forms, &form{kind: asText, secret: []byte(line)})
		}
	}
	return forms
}

// leastBits is how many bits of the first digit must be the secret's. Digits with fewer are left out: they
// would be looked for everywhere, and give away no more than what they hold.
const leastBits = 4

// digitForms returns the secret in digits for each number of bytes that may be before it.
func digitForms(secret string, n *notation) (forms []*form) {
	seen := 0
	for before := range n.bits {
		shift := 8 * before % n.bits // bits of the first digit that are not the secret's
		if seen&(1<<shift) != 0 {
			continue
		}
		seen |= 1 << shift
		if n.bits-shift < min(leastBits, n.bits) {
			shift -= n.bits
		}
		f := &form{kind: asDigits, secret: []byte(secret), set: n}
		for bit := -shift; bit < 8*len(secret); bit += n.bits {
			f.units = append(f.units, bitsAt(secret, bit, n.bits))
		}
		forms = append(forms, f)
	}
	return forms
}

// bitsAt returns count bits from a place on, which may begin before the secret and end after it.
func bitsAt(secret string, from, count int) (u unit) {
	for bit := from; bit < from+count; bit++ {
		u.value, u.mask = u.value<<1, u.mask<<1
		if 0 <= bit && bit < 8*len(secret) {
			u.value |= uint16(secret[bit/8]>>(7-bit%8)) & 1
			u.mask |= 1
		}
	}
	return u
}

// walk is a match under way: where the text may go on, for the next units.
type walk struct {
	text      []byte
	more      bool
	undecided bool
	// of the unit at hand and of the next ones; the units of a text are bytes, of which a character may have
	// several
	ends     [utf8.UTFMax + 1][]int
	open     int // how many ends there are
	unit     int
	reader   reader
	gaps     []int
	harmless prefixes
}

// maxEnds bounds how many places are followed at once. Only a text that is made for it has more than two or three.
const maxEnds = 64

// reached notes that units more units end at a place of the text.
func (w *walk) reached(units, end int) {
	ends := &w.ends[(w.unit+units)%len(w.ends)]
	if len(*ends) < maxEnds && !slices.Contains(*ends, end) {
		*ends = append(*ends, end)
		w.open++
	}
}

// match returns the length of the longest start of text that is a spelling of f, or 0. It is undecided when the
// text may go on and could then begin with one, or with a longer one.
func (f *form) match(w *walk, text []byte, more bool) (length int, undecided bool) {
	if f.kind == asWord {
		return f.word(text, more)
	}
	w.text, w.more, w.undecided, w.unit = text, more, false, 0
	w.open = 0
	w.reached(0, 0)
	n := len(f.units)
	if n == 0 {
		n = len(f.secret)
	}
	for ; w.unit < n; w.unit++ {
		if w.open == 0 {
			return 0, w.undecided
		}
		here := &w.ends[w.unit%len(w.ends)]
		for _, end := range *here {
			f.follow(w, end)
		}
		w.open -= len(*here)
		*here = (*here)[:0]
	}
	last := &w.ends[w.unit%len(w.ends)]
	for _, end := range *last {
		length = max(length, end)
	}
	*last = (*last)[:0]
	return length, w.undecided
}

// word is match for a secret that must not go on with a letter, a digit or an underscore.
func (f *form) word(text []byte, more bool) (length int, undecided bool) {
	n := len(f.secret)
	switch {
	case len(text) <= n && more:
		return 0, bytes.HasPrefix(f.secret, text)
	case bytes.HasPrefix(text, f.secret) && (len(text) == n || !isWord(text[n])):
		return n, false
	}
	return 0, false
}

// follow looks for the unit at hand from start on, and behind the gaps there.
func (f *form) follow(w *walk, start int) {
	if start >= len(w.text) {
		w.undecided = w.undecided || w.more
		return
	}
	f.spelled(w, start)
	if w.unit == 0 {
		return
	}
	w.gaps = w.gaps[:0]
	f.textGaps(w, start)
	for _, at := range w.gaps {
		if start+at < len(w.text) {
			f.spelled(w, start+at)
		} else {
			w.undecided = w.undecided || w.more
		}
	}
}

// spelled looks for a spelling of the unit at hand at a place.
func (f *form) spelled(w *walk, at int) {
	if f.kind == asDigits {
		f.digit(w, at)
	} else {
		f.character(w, at)
	}
}

// character looks for the characters that a text may stand for at a place, in the secret.
func (f *form) character(w *walk, at int) {
	rest := f.secret[w.unit:]
	if w.text[at] == rest[0] {
		w.reached(1, at+1)
	}
	if w.unit > 0 && separates(rest[0]) && len(f.secret) >= brokenFrom {
		w.reached(1, at) // left out
	}
	if !marksReading(w.text[at]) || isWord(rest[0]) && !escapesWord(w.text[at:], rest[0]) {
		return
	}
	w.read(at)
	replaced := rest[0] >= utf8.RuneSelf && invalid(rest)
	if replaced && bytes.HasPrefix(w.text[at:], []byte("\uFFFD")) {
		w.reached(1, at+len("\uFFFD"))
	}
	for i := range w.reader.found {
		r := &w.reader.found[i]
		if bytes.HasPrefix(rest, r.bytes()) {
			w.reached(r.size, at+r.n)
		}
		if replaced && string(r.bytes()) == "\uFFFD" {
			w.reached(1, at+r.n)
		}
	}
}

// separates reports whether a byte may stand between two digits, as in a text that was broken into lines.
func separates(c byte) bool { return c == '\n' || c == '\r' || c == '\t' }

// escapesWord reports whether text may begin with an escape of a letter, digit or underscore. It saves reading
// what escapes something else, as nearly everything does: nobody has to escape these.
func escapesWord(text []byte, c byte) bool {
	if len(text) < 2 {
		return text[0] == '\\' || text[0] == '%' || text[0] == '&'
	}
	next := text[1]
	switch text[0] {
	case '\\':
		return next == '\\' || next|0x20 == 'x' || next|0x20 == 'u' || digit(next) >= 0 || next == c
	case '%':
		return next|0x20 == 'u' || digit(next) == int32(c>>4)
	case '&':
		return next == '#' || c == '_'
	}
	return false
}

// invalid reports whether the first byte of s is not UTF-8.
func invalid(s []byte) bool {
	r, n := utf8.DecodeRune(s)
	return r == utf8.RuneError && n == 1
}

func (w *walk) read(at int) {
	w.reader.read(w.text[at:], w.more)
	w.undecided = w.undecided || w.reader.partial
}

// digit looks for a digit. The last two of base64 may be escaped: + and / are, in URLs and in some JSON.
func (f *form) digit(w *walk, at int) {
	c, u := w.text[at], f.units[w.unit]
	if v := f.set.values[c]; v >= 0 {
		if u.is(int(v)) {
			w.reached(1, at+1)
		}
		return
	}
	if c != '\\' && c != '%' && c != '&' || f.set.bits < 6 || !u.is(62) && !u.is(63) {
		return
	}
	w.read(at)
	for _, r := range w.reader.found {
		if v := f.set.values[r.value[0]]; r.size == 1 && v >= 0 && u.is(int(v)) {
			w.reached(1, at+r.n)
		}
	}
}

// textGaps adds the gaps at start. Digits may be broken by lines at any place, in whatever way the ends of
// these are written.
func (f *form) textGaps(w *walk, start int) {
	c, ofBytes := w.text[start], f.set != nil && f.set.bits == 4 && w.unit%2 == 0
	if ofBytes || marksGap(c) {
		broken := f.kind == asDigits || len(f.secret) >= brokenFrom
		w.gaps = w.reader.gaps(w.text[start:], w.more, broken, ofBytes, w.gaps)
		w.undecided = w.undecided || w.reader.partial
	}
	if f.kind != asDigits || c != ' ' && c != '\\' && c != '%' && c != '&' {
		return
	}
	at := start
	for range 2 { // CR and LF
		n := w.escapedEnd(at)
		if n == 0 {
			return
		}
		at += n
		w.gaps = append(w.gaps, at-start)
	}
}

// escapedEnd returns the length of a character at a place that stands for the end of a line, or 0.
func (w *walk) escapedEnd(at int) (n int) {
	if at >= len(w.text) {
		w.undecided = w.undecided || w.more
		return 0
	}
	w.read(at)
	for _, r := range w.reader.found {
		if r.size == 1 && (r.value[0] == '\n' || r.value[0] == '\r') {
			n = max(n, r.n)
		}
	}
	return n
}

// The least lengths, in bytes, from which something is looked for anywhere.
const (
	leastSecret = 4 // what is shorter counts only as a whole word, or half of all texts would be masked
	leastLine   = 5 // of a secret of several lines
)
