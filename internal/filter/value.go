package filter

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"prodigy/internal/check"
	"prodigy/internal/rawjson"
)

// Kind is a kind of JSON value. The order of the kinds is the one that sort_by gives to values of different kinds.
type Kind int

// The kinds of JSON values.
const (
	Null Kind = iota
	Boolean
	Number
	Text
	Array
	Object
)

// Value is what an expression works on. The zero value is null.
type Value struct {
	kind Kind
	yes  bool   // of a boolean
	text string // of a text; of a number, its spelling
	raw  []byte // of an array or object

	untyped bool // a text of no known kind: where a number or a boolean is wanted it is one, if it is spelled like one
}

// Kind returns the kind of the value.
func (v Value) Kind() Kind { return v.kind }

// Spelling returns a text, a number as it was spelled, or true or false. Of null, an array or an object it is empty.
func (v Value) Spelling() string {
	if v.kind == Boolean {
		return strconv.FormatBool(v.yes)
	}
	return v.text
}

func booleanValue(yes bool) Value { return Value{kind: Boolean, yes: yes} }

// ValueOf returns the value of a JSON document, which must be valid.
func ValueOf(raw []byte) Value {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return Value{}
	}
	switch raw[0] {
	case 'n':
		return Value{}
	case 't', 'f':
		return booleanValue(raw[0] == 't')
	case '"':
		return Value{kind: Text, text: rawjson.Unquote(raw)}
	case '[':
		return Value{kind: Array, raw: raw}
	case '{':
		return Value{kind: Object, raw: raw}
	}
	return Value{kind: Number, text: string(raw)}
}

// at follows a path down from v.
func (v Value) at(path []step) (found Value, ok bool) {
	for _, s := range path {
		if s.indexed {
			v, ok = v.element(s.index)
		} else {
			v, ok = v.member(s.name)
		}
		if !ok {
			return Value{}, false
		}
	}
	return v, true
}

// member returns the member of an object with that name, the last if there are several.
func (v Value) member(name string) (found Value, ok bool) {
	if v.kind != Object {
		return Value{}, false
	}
	raw := rawjson.Member(v.raw, name)
	return ValueOf(raw), raw != nil
}

// element returns an element of an array.
func (v Value) element(index int) (found Value, ok bool) {
	raw := rawjson.Element(v.raw, index)
	return ValueOf(raw), raw != nil
}

// truth is what a value counts as where a condition is wanted: all but null, false, 0 and what is empty holds.
func (v Value) truth() bool {
	switch v.kind {
	case Boolean:
		return v.yes
	case Number:
		return compareNumbers(v.text, "0") != 0
	case Text:
		if v.untyped { // false, 0 and nothing do not hold
			for _, k := range []Kind{Boolean, Number} {
				if w := v.as(k); w.kind == k {
					return w.truth()
				}
			}
		}
		return v.text != ""
	case Array, Object:
		return v.length().text != "0"
	}
	return false
}

// length returns the number of characters, elements or members; of anything else null.
func (v Value) length() Value {
	n := 0
	switch v.kind {
	case Text:
		n = utf8.RuneCountInString(v.text)
	case Array:
		for range rawjson.Elements(v.raw) {
			n++
		}
	case Object:
		n = len(v.members())
	default:
		return Value{}
	}
	return Value{kind: Number, text: strconv.Itoa(n)}
}

func (v Value) members() map[string][]byte {
	out := map[string][]byte{}
	for quoted, member := range rawjson.Members(v.raw) {
		out[rawjson.Unquote(quoted)] = member
	}
	return out
}

// Equal reports whether two values are equal: numbers whatever their spelling, objects whatever their order. A text and
// a number never are.
func (v Value) Equal(w Value) bool {
	v, w = coerce(v, w)
	switch {
	case v.kind != w.kind:
		return false
	case v.kind == Number:
		return compareNumbers(v.text, w.text) == 0
	case v.kind == Text:
		return v.text == w.text
	}
	return bytes.Equal(v.AppendOrdered(nil), w.AppendOrdered(nil))
}

// contains reports whether a text holds another, or an array an element.
func (v Value) contains(w Value) bool {
	switch {
	case v.kind == Text && w.kind == Text:
		return strings.Contains(v.text, w.text)
	case v.kind == Array:
		for element := range rawjson.Elements(v.raw) {
			if ValueOf(element).Equal(w) {
				return true
			}
		}
	}
	return false
}

// coerce returns a and b as what they are to each other: an untyped text beside a number or a boolean is one
// if it is spelled like one, and so are two untyped numbers.
func coerce(a, b Value) (Value, Value) {
	switch {
	case a.untyped && b.untyped:
		if x, y := a.as(Number), b.as(Number); x.kind == Number && y.kind == Number {
			return x, y
		}
		return a.as(Text), b.as(Text)
	case a.untyped:
		return a.as(b.kind), b
	case b.untyped:
		return a, b.as(a.kind)
	}
	return a, b
}

// as returns an untyped text as a value of kind k, or as a plain text when it is not spelled like one.
func (v Value) as(k Kind) Value {
	spelled := strings.TrimSpace(v.text)
	switch {
	case k == Number && spelled != "" && (spelled[0] == '-' || isDigit(spelled[0])) && rawjson.Valid([]byte(spelled)):
		return Value{kind: Number, text: spelled}
	case k == Boolean && strings.EqualFold(spelled, "true"):
		return booleanValue(true)
	case k == Boolean && strings.EqualFold(spelled, "false"):
		return booleanValue(false)
	}
	return Value{kind: Text, text: v.text}
}

// compareNumbers compares two numbers as they are spelled in JSON, exactly, however large or small they are.
func compareNumbers(a, b string) int {
	if len(a) < 19 && len(b) < 19 {
		x, errX := strconv.ParseInt(a, 10, 64)
		y, errY := strconv.ParseInt(b, 10, 64)
		if errX == nil && errY == nil {
			return cmp.Compare(x, y)
		}
	}
	return bytes.Compare(appendNumber(nil, newDecimal(a)), appendNumber(nil, newDecimal(b)))
}

// decimal is sign · 0.digits · 10^point, where digits neither begins nor ends with a zero.
type decimal struct {
	sign   int
	digits string
	point  int64
}

func newDecimal(s string) decimal {
	d := decimal{sign: 1}
	if rest, ok := strings.CutPrefix(s, "-"); ok {
		d.sign, s = -1, rest
	}
	mantissa, exponent := s, ""
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, exponent = s[:i], s[i+1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	all := whole + fraction
	d.digits = strings.TrimLeft(all, "0")
	d.point = int64(len(whole) - (len(all) - len(d.digits)))
	d.digits = strings.TrimRight(d.digits, "0")
	if d.digits == "" {
		return decimal{}
	}
	if exponent != "" {
		// One that fits no computer is cut to a size that leaves room to add to.
		const most = math.MaxInt64 / 2
		n, _ := strconv.ParseInt(exponent, 10, 64) // out of range gives the nearest
		d.point += min(max(n, -most), most)
	}
	return d
}

// step is one step of a path: a name, or an index.
type step struct {
	name    string
	index   int
	indexed bool
}

// lookup finds the value of a path. The bool reports whether the path exists.
type lookup func(path []step) (Value, bool)

// inItem follows a path in an item, with or without the word item before the path.
func inItem(item Value, path []step) (Value, bool) {
	if !path[0].indexed && path[0].name == "item" {
		path = path[1:]
	}
	return item.at(path)
}

// AppendOrdered appends a form of the value whose bytes have the order of values: null, booleans, numbers,
// texts, arrays, objects; numbers by size, texts byte by byte, arrays by their first element that differs,
// objects by their members in the order of the names. Two values have the same form if and only if they are
// equal, and no form is the beginning of another.
func (v Value) AppendOrdered(b []byte) []byte {
	b = append(b, byte(v.kind)+1) // 0 ends arrays and objects
	switch v.kind {
	case Boolean:
		if v.yes {
			return append(b, 1)
		}
		return append(b, 0)
	case Number:
		return appendNumber(b, newDecimal(v.text))
	case Text:
		return appendText(b, v.text)
	case Array:
		for element := range rawjson.Elements(v.raw) {
			b = ValueOf(element).AppendOrdered(b)
		}
		return append(b, 0)
	case Object:
		for name, member := range check.ByKey(v.members()) {
			b = appendText(append(b, 1), name)
			b = ValueOf(member).AppendOrdered(b)
		}
		return append(b, 0)
	}
	return b
}

// appendNumber appends the sign, and then the exponent and the digits, which are inverted when less is more.
func appendNumber(b []byte, d decimal) []byte {
	b = append(b, byte(d.sign+1))
	if d.sign == 0 {
		return b
	}
	start := len(b)
	b = binary.BigEndian.AppendUint64(b, uint64(d.point)+math.MaxInt64+1)
	b = append(append(b, d.digits...), 0)
	if d.sign < 0 {
		invert(b[start:])
	}
	return b
}

// appendText appends a text and its end, 0 0. A 0 in the text is followed by 1.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if b = append(b, s[i]); s[i] == 0 {
			b = append(b, 1)
		}
	}
	return append(b, 0, 0)
}

func invert(b []byte) {
	for i := range b {
		b[i] = ^b[i]
	}
}
