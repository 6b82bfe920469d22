package filter

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"slices"

	"prodigy/internal/rawjson"
)

// Order is a compiled sort_by.
type Order []term

// term is one of the fields that items are sorted by.
type term struct {
	path       []step
	descending bool
	nullsFirst bool
}

// ParseOrder compiles a sort_by: path [ASC|DESC] [NULLS FIRST|LAST], and more of them after commas. The words
// are the same in small letters. An error shows the place with a caret.
func ParseOrder(src string) (Order, error) {
	var o Order
	p := &parser{src: src}
	err := p.parse(func(p *parser) {
		for {
			o = append(o, p.term())
			if p.token.kind == tokenEnd {
				return
			}
			p.expect(",", "or ASC, DESC or NULLS")
		}
	})
	return o, err
}

func (p *parser) term() term {
	t := term{path: p.field()}
	if t.descending = p.token.isWord("DESC"); t.descending || p.token.isWord("ASC") {
		p.advance()
	}
	if !p.accept("", "NULLS") {
		return t
	}
	if t.nullsFirst = p.token.isWord("FIRST"); !t.nullsFirst && !p.token.isWord("LAST") {
		p.fail(p.token.at, "expected FIRST or LAST after NULLS, got %s", p.token)
	}
	p.advance()
	return t
}

// field reads the path of a field.
func (p *parser) field() []step {
	t := p.token
	switch {
	case t.isSign("["):
		return p.steps(nil, t.at).path
	case t.kind == tokenWord:
		p.advance()
		return p.steps([]step{{name: t.text}}, t.at).path
	}
	p.fail(t.at, "expected the path of a field, got %s", t)
	return nil
}

// AppendKey appends what sorts bytewise as the item does in the order.
func (o Order) AppendKey(b []byte, item json.RawMessage) []byte {
	root := ValueOf(item)
	for _, t := range o {
		v, _ := inItem(root, t.path)
		switch {
		case v.kind != Null:
			b = append(b, 1)
			start := len(b)
			b = v.AppendOrdered(b)
			if t.descending {
				invert(b[start:])
			}
		case t.nullsFirst:
			b = append(b, 0)
		default:
			b = append(b, 2)
		}
	}
	return b
}

func invert(b []byte) {
	for i := range b {
		b[i] = ^b[i]
	}
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
		return appendMembers(b, v.members())
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

func appendMembers(b []byte, members map[string][]byte) []byte {
	for _, name := range slices.Sorted(maps.Keys(members)) {
		b = appendText(append(b, 1), name)
		b = ValueOf(members[name]).AppendOrdered(b)
	}
	return append(b, 0)
}
