// Package rawjson reads JSON without decoding it, where it lies. All JSON that prodigy is given is held against Valid, so that what one part
// accepts every other part can read.
//
// Two choices that the RFC leaves open. Text is UTF-8, and half of a surrogate pair is an error, because neither could be handed to a
// command. A name may stand twice in an object; the last one counts.
package rawjson

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"iter"
	"math/bits"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is how far arrays and objects may nest. The decoders of Go stop at 10,000; the rest is room for the records of prodigy that hold
// a value: one that can be read can be read back from every file of a job.
const MaxDepth = 9_000

// Encode returns v as JSON. Unlike json.Marshal it leaves <, > and & as they are, and with them the JSON in v.
func Encode(v any) ([]byte, error) { return Indented(v, "", "") }

// Indented is Encode with each part on a line of its own, if there is an indent.
func Indented(v any, prefix, indent string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent(prefix, indent)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// Of is Encode for a value that has JSON.
func Of(v any) []byte {
	data, err := Encode(v)
	if err != nil {
		panic("BUG: there is no JSON: " + err.Error())
	}
	return data
}

// Valid reports whether data is exactly one JSON value, perhaps between blanks.
func Valid(data []byte) bool {
	return jsontext.Value(data).IsValid(jsontext.AllowDuplicateNames(true)) && !TooDeep(data)
}

// TooDeep reports whether valid JSON nests further than MaxDepth.
func TooDeep(raw []byte) bool {
	if len(raw) <= 2*MaxDepth || bytes.Count(raw, []byte("["))+bytes.Count(raw, []byte("{")) <= MaxDepth {
		return false // as nearly always, and cheap to find out
	}
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i = stringEnd(raw, i) - 1
		case '[', '{':
			if depth++; depth > MaxDepth {
				return true
			}
		case ']', '}':
			depth--
		}
	}
	return false
}

// The others read valid JSON only; of anything else they give what they like, but end.

// Compact returns raw without the blanks between its parts, and with every part spelled as it was. That is raw itself when it has none,
// and lies in buf otherwise.
func Compact(buf *[]byte, raw []byte) []byte {
	out, start := (*buf)[:0], 0
	for i := 0; i < len(raw); {
		switch c := raw[i]; {
		case c == '"':
			i = stringEnd(raw, i)
		case IsBlank(c):
			out = append(out, raw[start:i]...)
			i = skipBlanks(raw, i)
			start = i
		default:
			i++
		}
	}
	if start == 0 {
		return raw
	}
	*buf = append(out, raw[start:]...)
	return *buf
}

// Elements yields the elements of an array, and nothing for any other value.
func Elements(raw []byte) iter.Seq[[]byte] {
	return func(yield func(element []byte) bool) {
		for i := firstPart(raw, '['); i < len(raw); {
			end := ValueEnd(raw, i)
			if !yield(raw[i:end]) {
				return
			}
			i = nextPart(raw, end)
		}
	}
}

// Element returns the element of an array with this index, or nil.
func Element(raw []byte, index int) []byte {
	for element := range Elements(raw) {
		if index == 0 {
			return element
		}
		index--
	}
	return nil
}

// Members yields the names, in quotes, and the values of an object, and nothing for any other value.
func Members(raw []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(quoted, value []byte) bool) {
		for i := firstPart(raw, '{'); i < len(raw); {
			colon := ValueEnd(raw, i)
			start := nextPart(raw, colon)
			end := ValueEnd(raw, start)
			if !yield(raw[i:colon], raw[start:end]) {
				return
			}
			i = nextPart(raw, end)
		}
	}
}

// Member returns the value of the member of an object with that name, the last if there are several, or nil.
func Member(raw []byte, name string) []byte {
	var found []byte
	for quoted, value := range Members(raw) {
		if IsNamed(quoted, name) {
			found = value
		}
	}
	return found
}

// IsNamed compares a name in quotes with a plain one.
func IsNamed(quoted []byte, name string) bool {
	if len(quoted) < 2 {
		return false
	}
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1:len(quoted)-1]) == name
	}
	return Unquote(quoted) == name
}

// Unquote returns the text of a string.
func Unquote(quoted []byte) string {
	if len(quoted) >= 2 && bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	text, _ := jsontext.AppendUnquote(nil, quoted)
	return string(text)
}

// Text returns the text of a string, nothing for null, and any other value as it is spelled.
func Text(raw []byte) string {
	if len(raw) > 0 && raw[0] == '"' {
		return Unquote(raw)
	}
	return strings.TrimPrefix(string(raw), "null")
}

// IsBlank reports whether c may stand between the parts of a value.
func IsBlank(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

func skipBlanks(raw []byte, i int) int {
	for i < len(raw) && IsBlank(raw[i]) {
		i++
	}
	return i
}

// stringEnd returns where the string that starts at i has ended.
func stringEnd(raw []byte, i int) int {
	for i++; i < len(raw); {
		n := quote(raw[i:])
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

// quote returns where the first quote is, or -1. Most are near: eight bytes at a time are faster there than a search.
func quote(raw []byte) int {
	const near, ones, highs, quotes = 48, 0x0101010101010101, 0x8080808080808080, 0x2222222222222222
	i := 0
	for ; i < near && i+8 <= len(raw); i += 8 {
		x := binary.LittleEndian.Uint64(raw[i:]) ^ quotes // a byte that is a quote is zero now
		if zero := (x - ones) &^ x & highs; zero != 0 {
			return i + bits.TrailingZeros64(zero)/8
		}
	}
	n := bytes.IndexByte(raw[i:], '"')
	if n < 0 {
		return -1
	}
	return i + n
}

// ValueEnd returns where the value that starts at i has ended.
func ValueEnd(raw []byte, i int) int {
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
	for i < len(raw) && !IsBlank(raw[i]) && raw[i] != ',' && raw[i] != ']' && raw[i] != '}' {
		i++
	}
	return i
}

// firstPart returns where the first element or name of a value starts that open opens, or len(raw) when there is none.
func firstPart(raw []byte, open byte) int {
	i := skipBlanks(raw, 0)
	if i == len(raw) || raw[i] != open {
		return len(raw)
	}
	return nextPart(raw, i+1)
}

// nextPart returns where the next name or value inside an object or array starts, or len(raw) at its end.
func nextPart(raw []byte, i int) int {
	for i < len(raw) && (IsBlank(raw[i]) || raw[i] == ',' || raw[i] == ':') {
		i++
	}
	if i < len(raw) && (raw[i] == '}' || raw[i] == ']') {
		return len(raw)
	}
	return i
}
