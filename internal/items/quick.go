package items

import "unicode/utf8"

// deepestQuick is how far a value may nest that is read in one go.
const deepestQuick = 100

// quick reads a value that lies in data as a whole, in one go: several times as fast as scan, which is asked when this gives up.
type quick struct {
	data []byte
	out  []byte // the value without the blanks between its parts, up to from
	from int
	keep bool // whether out is wanted
}

// read reads the value at the beginning of data and returns its length, or false when it does not end there, or is none.
func (q *quick) read(data []byte) (length int, ok bool) {
	q.data, q.out, q.from = data, q.out[:0], 0
	end := q.value(0, 0)
	if end < 0 {
		return 0, false
	}
	if q.keep && q.from > 0 {
		q.out = append(q.out, data[q.from:end]...)
	}
	return end, true
}

// value returns where the value that starts at i has ended, or -1. So do the others.
func (q *quick) value(i, depth int) int {
	if i < 0 || i >= len(q.data) || depth > deepestQuick {
		return -1
	}
	switch c := q.data[i]; {
	case c == '"':
		return q.text(i + 1)
	case c == '{':
		return q.object(i+1, depth)
	case c == '[':
		return q.array(i+1, depth)
	case c == '-' || isDigit(c):
		return q.number(i)
	case c == 't':
		return q.word(i, "true")
	case c == 'f':
		return q.word(i, "false")
	case c == 'n':
		return q.word(i, "null")
	}
	return -1
}

func (q *quick) object(i, depth int) int {
	if i = q.blanks(i); q.is(i, '}') {
		return i + 1
	}
	for q.is(i, '"') {
		if i = q.blanks(q.text(i + 1)); !q.is(i, ':') {
			return -1
		}
		i = q.blanks(q.value(q.blanks(i+1), depth+1))
		if !q.is(i, ',') {
			return q.end(i, '}')
		}
		i = q.blanks(i + 1)
	}
	return -1
}

func (q *quick) array(i, depth int) int {
	if i = q.blanks(i); q.is(i, ']') {
		return i + 1
	}
	for {
		i = q.blanks(q.value(i, depth+1))
		if !q.is(i, ',') {
			return q.end(i, ']')
		}
		i = q.blanks(i + 1)
	}
}

func (q *quick) end(i int, c byte) int {
	if q.is(i, c) {
		return i + 1
	}
	return -1
}

func (q *quick) is(i int, c byte) bool { return uint(i) < uint(len(q.data)) && q.data[i] == c }

func (q *quick) blanks(i int) int {
	if uint(i) < uint(len(q.data)) && q.data[i] > ' ' {
		return i
	}
	return q.skip(i)
}

// skip leaves out the blanks from i on.
func (q *quick) skip(i int) int {
	if i < 0 {
		return -1
	}
	end := i
	for end < len(q.data) && isBlank(q.data[end]) {
		end++
	}
	if q.keep && end > i {
		q.out = append(q.out, q.data[q.from:i]...)
		q.from = end
	}
	return end
}

func (q *quick) text(i int) int {
	for {
		i = plain(q.data, i)
		if i >= len(q.data) {
			return -1
		}
		n := 0
		switch c := q.data[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			n, _ = escapeLength(q.data[i:])
		case c >= utf8.RuneSelf:
			n, _ = characterLength(q.data[i:])
		}
		if n == 0 {
			return -1
		}
		i += n
	}
}

func (q *quick) word(i int, word string) int {
	if len(q.data)-i < len(word) || string(q.data[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

func (q *quick) number(i int) int {
	if q.data[i] == '-' {
		i++
	}
	start := i
	i = digitsEnd(q.data, i)
	if i == start || q.data[start] == '0' && i > start+1 || i == len(q.data) {
		return -1
	}
	if c := q.data[i]; c == '.' || c|0x20 == 'e' {
		return q.fraction(i)
	}
	return i
}

// fraction reads what follows the whole part of a number.
func (q *quick) fraction(i int) int {
	if q.is(i, '.') {
		start := i + 1
		if i = digitsEnd(q.data, start); i == start {
			return -1
		}
	}
	if q.is(i, 'e') || q.is(i, 'E') {
		if i++; q.is(i, '-') || q.is(i, '+') {
			i++
		}
		start := i
		if i = digitsEnd(q.data, start); i == start {
			return -1
		}
	}
	if i == len(q.data) {
		return -1
	}
	return i
}
