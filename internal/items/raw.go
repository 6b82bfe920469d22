package items

import (
	"bytes"
	"encoding/json"
)

// compact returns a copy of valid JSON without the blanks between its parts. Nothing is spelled anew.
func compact(raw []byte) []byte {
	out := bytes.Clone(raw)
	n, start := 0, 0 // out[:n] is done, and raw[start:i] is to be kept
	for i := 0; i < len(raw); {
		switch c := raw[i]; {
		case c == '"':
			i = stringEnd(raw, i)
		case c <= ' ':
			n += copy(out[n:], raw[start:i])
			i++
			start = i
		default:
			i++
		}
	}
	if start == 0 {
		return out
	}
	n += copy(out[n:], raw[start:])
	return out[:n]
}

func isBlank(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// stringEnd returns where the string that starts at i has ended.
func stringEnd(raw []byte, i int) int {
	const short = 16 // up to here a plain loop is faster than a search
	for j, c := range raw[i+1 : min(len(raw), i+1+short)] {
		if c == '"' {
			return i + j + 2
		}
		if c == '\\' {
			break
		}
	}
	for i++; i < len(raw); {
		n := bytes.IndexByte(raw[i:], '"')
		if n < 0 {
			return len(raw)
		}
		i += n + 1
		back := i - 2
		for raw[back] == '\\' {
			back--
		}
		if (i-2-back)%2 == 0 {
			return i
		}
	}
	return len(raw)
}

// valueEnd returns where the value that starts at i has ended.
func valueEnd(raw []byte, i int) int {
	depth := 0
	for i < len(raw) {
		switch c := raw[i]; c {
		case '"':
			i = stringEnd(raw, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		default:
			i++
			if depth == 0 {
				i = scalarEnd(raw, i)
			}
		}
		if depth <= 0 {
			return i
		}
	}
	return len(raw)
}

func scalarEnd(raw []byte, i int) int {
	for i < len(raw) && !isBlank(raw[i]) && raw[i] != ',' && raw[i] != ']' && raw[i] != '}' {
		i++
	}
	return i
}

// nextPart returns where the next name or value inside an object or array starts, or len(raw) at its end.
func nextPart(raw []byte, i int) int {
	for i < len(raw) && (isBlank(raw[i]) || raw[i] == ',' || raw[i] == ':') {
		i++
	}
	if i < len(raw) && (raw[i] == '}' || raw[i] == ']') {
		return len(raw)
	}
	return i
}

// eachElement calls f with the elements of an array until it returns false.
func eachElement(raw []byte, f func(element []byte) bool) {
	for i := nextPart(raw, 1); i < len(raw); {
		end := valueEnd(raw, i)
		if !f(raw[i:end]) {
			return
		}
		i = nextPart(raw, end)
	}
}

// eachMember calls f with the names, in quotes, and values of an object.
func eachMember(raw []byte, f func(quoted, value []byte)) {
	for i := nextPart(raw, 1); i < len(raw); {
		colon := valueEnd(raw, i)
		start := nextPart(raw, colon)
		end := valueEnd(raw, start)
		f(raw[i:colon], raw[start:end])
		i = nextPart(raw, end)
	}
}

// isNamed compares a name in quotes with a plain one.
func isNamed(quoted []byte, name string) bool {
	if len(quoted) < 2 {
		return false
	}
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1:len(quoted)-1]) == name
	}
	return unquote(quoted) == name
}

func unquote(quoted []byte) string {
	if len(quoted) >= 2 && bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var text string
	_ = json.Unmarshal(quoted, &text) // valid JSON; anything else is an empty text
	return text
}
