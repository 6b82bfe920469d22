package mask

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// brokenFrom is the length from which a secret is also found when its lines were broken, as fold does it, or joined. In a short one
// every accident of two lines would count.
const brokenFrom = 16

// form is a family of encodings of one secret, as a sequence of units: a text can spell each unit in several ways and have a gap in
// front of all but the first.
type form struct {
	kind   kind
	secret []byte
	units  []unit     // of numbers and digits
	fields [][]string // of columns: what each byte can be there
	set    *notation
}

type kind uint8

const (
	asWord    kind = iota // the bytes themselves, where no letter, digit or underscore stands beside them
	asText                // characters, each as it is or escaped
	asDigits              // groups of bits: base64, base32
	asNumbers             // numbers: hexadecimal, octal and decimal dumps
	asColumns             // od -c, od -a and hexdump -c
)

// unit is the bits of a secret that one digit or number has. Those outside of mask belong to what is around the secret.
type unit struct{ value, mask uint16 }

func (u unit) is(v int) bool { return uint16(v)&u.mask == u.value }

// notation says how digits or numbers are written.
type notation struct {
	bits   int       // of a digit
	digits [256]int8 // their values; -1: none

	base     int32
	min, max int  // digits of a number
	words    bool // numbers of two bytes, the first of which is the lower
	packed   bool // numbers may stand without anything between them
}

func alphabet(bits int, letters ...string) *notation {
	n := &notation{bits: bits}
	for i := range n.digits {
		n.digits[i] = -1
	}
	for _, s := range letters {
		for i := range len(s) {
			n.digits[s[i]] = int8(i)
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
		{base: 16, min: 1, max: 2, packed: true},
		{base: 10, min: 1, max: 3},
		{base: 8, min: 3, max: 3},
		{base: 16, min: 4, max: 4, words: true},
		{base: 8, min: 6, max: 6, words: true},
	}
}

// formsOf returns the forms in which a secret is looked for.
func formsOf(secret string, all []*notation) []*form {
	if Short(secret) {
		return []*form{{kind: asWord, secret: []byte(secret)}}
	}
	columns := &form{kind: asColumns, secret: []byte(secret)}
	for _, c := range columns.secret {
		columns.fields = append(columns.fields, fieldsOf(c))
	}
	forms := []*form{{kind: asText, secret: []byte(secret)}, columns}
	for _, n := range all {
		switch {
		case n.bits > 0:
			forms = append(forms, digitForms(secret, n)...)
		case n.words:
			for before := range 2 {
				forms = append(forms, &form{kind: asNumbers, secret: []byte(secret), set: n, units: wordUnits(secret, before)})
			}
		default:
			units := make([]unit, len(secret))
			for i := range units {
				units[i] = unit{uint16(secret[i]), 0xffff}
			}
			forms = append(forms, &form{kind: asNumbers, secret: []byte(secret), set: n, units: units})
		}
	}
	return slices.Concat(forms, lineForms(secret))
}

// lineForms returns the forms of the lines of a secret that has several.
func lineForms(secret string) (forms []*form) {
	if !strings.Contains(secret, "\n") {
		return nil
	}
	for line := range strings.Lines(secret) {
		if line = strings.TrimSpace(line); len(line) >= leastLine {
			forms = append(forms, &form{kind: asText, secret: []byte(line)})
		}
	}
	return forms
}

// leastBits is how many bits of the first digit must be the secret's. Digits with fewer are left out: they would be looked for
// everywhere, and give away no more than what they hold.
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

// wordUnits returns the secret in words of two bytes, when before bytes of the first are not its own.
func wordUnits(secret string, before int) (units []unit) {
	for i := -before; i < len(secret); i += 2 {
		var u unit
		for high := range 2 {
			if at := i + high; 0 <= at && at < len(secret) {
				u.value |= uint16(secret[at]) << (8 * high)
				u.mask |= 0xff << (8 * high)
			}
		}
		units = append(units, u)
	}
	return units
}

func (f *form) length() int {
	if f.units != nil {
		return len(f.units)
	}
	return len(f.secret)
}

// walk is a match under way: where the text may go on, for the next units.
type walk struct {
	text      []byte
	more      bool
	undecided bool
	ends      [utf8.UTFMax + 1][]int // of the unit at hand and of the next ones; the units of a text are bytes, of which a character may have several
	open      int                    // how many ends there are
	unit      int
	reader    reader
	gaps      []int
	harmless  prefixes
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

// match returns the length of the longest start of text that is a spelling of f, or 0. It is undecided when the text may go on and
// could then begin with one, or with a longer one.
func (f *form) match(w *walk, text []byte, more bool) (length int, undecided bool) {
	if f.kind == asWord {
		return f.word(text, more)
	}
	w.text, w.more, w.undecided, w.unit = text, more, false, 0
	w.open = 0
	w.reached(0, 0)
	for n := f.length(); w.unit < n; w.unit++ {
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
		if f.kind == asNumbers {
			end += w.restOfDump(end)
		}
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
	if f.kind == asColumns {
		f.column(w, start)
		return
	}
	if w.unit == 0 || f.kind != asNumbers || f.set.packed {
		f.spelled(w, start)
	}
	if w.unit == 0 {
		return
	}
	w.gaps = w.gaps[:0]
	if f.kind == asNumbers {
		w.numberGaps(start)
	} else {
		f.textGaps(w, start)
	}
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
	switch f.kind {
	case asText:
		f.character(w, at)
	case asDigits:
		f.digit(w, at)
	case asNumbers:
		f.number(w, at)
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

func separates(c byte) bool { return c == '\n' || c == '\r' || c == '\t' }

// escapesWord reports whether text may begin with an escape of a letter, digit or underscore. It saves reading what escapes something
// else, as nearly everything does: nobody has to escape these.
func escapesWord(text []byte, c byte) bool {
	if len(text) < 2 {
		return text[0] == '\\' || text[0] == '%' || text[0] == '&' || text[0] == '='
	}
	next := text[1]
	switch text[0] {
	case '\\':
		return next == '\\' || next|0x20 == 'x' || next|0x20 == 'u' || digit(next) >= 0 || next == c
	case '%':
		nested := next == '2' && (len(text) < 3 || text[2] == '5')
		return nested || next|0x20 == 'u' || digit(next) == int32(c>>4)
	case '=':
		return digit(next) == int32(c>>4)
	case '&':
		return next == '#' || next == 'a' || c == '_'
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
	if v := f.set.digits[c]; v >= 0 {
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
		if v := f.set.digits[r.value[0]]; r.size == 1 && v >= 0 && u.is(int(v)) {
			w.reached(1, at+r.n)
		}
	}
}

// textGaps adds the gaps at start. Digits may be broken by lines at any place, in whatever way the ends of these are written.
func (f *form) textGaps(w *walk, start int) {
	c := w.text[start]
	if marksGap(c) {
		w.gaps = w.reader.gaps(w.text[start:], w.more, f.kind == asDigits || len(f.secret) >= brokenFrom, w.gaps)
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

// number looks for a number, with what may stand in front of it.
func (f *form) number(w *walk, at int) {
	r := &w.reader
	r.text, r.more, r.partial = w.text[at:], w.more, false
	i, negative, marked := 0, false, false
	switch {
	case r.text[0] == '-' && f.set.base == 10:
		i, negative = 1, true
	case f.set.base == 16 && !f.set.words:
		i = r.prefix()
		marked = i > 0
	}
	u := f.units[w.unit]
	if negative {
		u.value = 256 - u.value
	}
	cut := r.partial // in the prefix
	for n := f.set.min; n <= f.set.max; n++ {
		r.partial = false
		v, got := r.digits(i, n, f.set.base)
		next := int32(-1)
		if got == n {
			next = digit(r.at(i + n))
		}
		if r.partial && u.mayBecome(int(v), f.set.max-got, int(f.set.base)) {
			cut = true
		}
		if got < n {
			break
		}
		ends := next < 0 || next >= f.set.base
		full := n == f.set.max && (f.set.packed || ends)
		if (full || ends && (marked || f.set.base == 10 || w.unit > 0)) && u.is(int(v)) {
			w.reached(1, at+i+n)
		}
	}
	w.undecided = w.undecided || cut
}

// mayBecome reports whether v can be the first digits of a number that is u, of which up to left digits are to come.
func (u unit) mayBecome(v, left, base int) bool {
	low, high := v, v
	for range left + 1 {
		if low <= int(u.value|^u.mask) && high >= int(u.value) {
			return true
		}
		low, high = low*base, high*base+base-1
	}
	return false
}

// prefix returns the length of what marks a hexadecimal number: 0x73, \x73.
func (r *reader) prefix() int {
	i := r.backslashes(0)
	if i == 0 && r.at(0) == '0' {
		i = 1
	}
	if i > 0 && r.at(i)|0x20 == 'x' {
		return i + 1
	}
	return 0
}

// Limits of a dump.
const (
	maxOffset = 16 // digits
	maxLine   = 160
)

// numberGaps adds what may be between two numbers: blanks, a comma or the like, and at the end of a line of a dump the same bytes as
// characters, and the offset of the next line.
func (w *walk) numberGaps(start int) {
	r := &w.reader
	r.text, r.more, r.partial = w.text[start:], w.more, false
	i := r.blanks(0)
	if i > 0 {
		w.gaps = append(w.gaps, i)
	}
	switch r.at(i) {
	case ',', ':', ';', '.', '-', '_', '|', '/':
		w.gaps = append(w.gaps, r.blanks(i+1))
	}
	if c := r.text[0]; c == ' ' || c == '\t' || c == '\n' || c == '\r' {
		line := 0
		for line < maxLine && r.at(line) != '\n' && line < len(r.text) {
			line++
		}
		if r.at(line) == '\n' {
			w.offset(line + 1)
		}
	}
	w.undecided = w.undecided || r.partial
}

// offset adds what follows the offset at the start of a line.
func (w *walk) offset(i int) {
	r, n := &w.reader, 0
	for n < maxOffset && digit(r.at(i+n)) >= 0 {
		n++
	}
	if n < 4 {
		return
	}
	i += n
	if r.at(i) == ':' {
		i++
	}
	if end := r.blanks(i); end > i {
		w.gaps = append(w.gaps, end)
	}
}

func (r *reader) blanks(i int) int {
	for first := i; i-first < maxIndent; i++ {
		if c := r.at(i); c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			break
		}
	}
	return i
}

// restOfDump returns the length of the rest of a line of a dump, which repeats its bytes as characters: "73 33 63  |s3c|". It is 0 when
// the line has no such part.
func (w *walk) restOfDump(end int) int {
	r := &w.reader
	r.text, r.more, r.partial = w.text[end:], w.more, false
	i := 0
	for i < maxLine && (r.at(i) == ' ' || digit(r.at(i)) >= 0) && (r.at(i) != ' ' || r.at(i+1) != ' ') {
		i++
	}
	if r.at(i) == ' ' || i > 0 && (r.at(i) == '|' || r.at(i) == '>') {
		for i < maxLine && i < len(r.text) && r.at(i) != '\n' {
			i++
		}
		r.at(i)
		w.undecided = w.undecided || r.partial
		return min(i, len(r.text))
	}
	w.undecided = w.undecided || r.partial
	return 0
}

// columnWidth is that of a byte in od -c, od -a and hexdump -c.
const columnWidth = 4

// column looks for a byte in a dump of characters: od -c writes "   a", "  \n" and " 303".
func (f *form) column(w *walk, at int) {
	r := &w.reader
	r.text, r.more, r.partial = w.text[at:], w.more, false
	if w.unit == 0 {
		for _, field := range f.fields[0] {
			switch {
			case bytes.HasPrefix(r.text, []byte(field)):
				w.reached(1, at+len(field))
			case w.more && len(r.text) < len(field) && strings.HasPrefix(field, string(r.text)):
				w.undecided = true
			}
		}
		return
	}
	i := 0
	if r.text[0] == '\n' {
		n := 0
		for n < maxOffset && digit(r.at(1+n)) >= 0 {
			n++
		}
		if n > 0 && n < 4 {
			w.undecided = w.undecided || r.partial
			return
		}
		i = 1 + n
	}
	if r.at(i) == ' ' {
		r.at(i + columnWidth - 1)
		if end := i + columnWidth; end <= len(r.text) {
			field := bytes.TrimLeft(r.text[i:end], " ")
			if len(field) == 0 && f.secret[w.unit] == ' ' || slices.Contains(f.fields[w.unit], string(field)) {
				w.reached(1, at+end)
			}
		}
	}
	w.undecided = w.undecided || r.partial
}

// fieldsOf returns what dumps of characters print for c.
func fieldsOf(c byte) []string {
	octal := string([]byte{'0' + c>>6, '0' + c>>3&7, '0' + c&7})
	fields := []string{string([]byte{c}), octal, asciiName(c & 0x7f)}
	if i := strings.IndexByte("\a\b\t\n\v\f\r", c); i >= 0 {
		fields = append(fields, `\`+"abtnvfr"[i:i+1])
	}
	return fields
}

// asciiName returns how od -a calls a character, of which it does not see the highest bit.
func asciiName(c byte) string {
	names := strings.Fields("nul soh stx etx eot enq ack bel bs ht nl vt ff cr so si dle dc1 dc2 dc3 dc4 nak syn etb can em sub esc fs gs rs us sp")
	switch {
	case int(c) < len(names):
		return names[c]
	case c == 0x7f:
		return "del"
	}
	return string([]byte{c})
}
