package filter

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"

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
	err := parseWith(src, func(p *parser) error {
		for {
			t, err := p.term()
			if err != nil {
				return err
			}
			o = append(o, t)
			if p.token.kind == tokenEnd {
				return nil
			}
			if err := p.expect(",", "or ASC, DESC or NULLS"); err != nil {
				return err
			}
		}
	})
	return o, err
}

func (p *parser) term() (t term, err error) {
	if t.path, err = p.field(); err != nil {
		return term{}, err
	}
	switch {
	case p.isKeyword("DESC"):
		t.descending = true
		err = p.advance()
	case p.isKeyword("ASC"):
		err = p.advance()
	}
	if err != nil || !p.isKeyword("NULLS") {
		return t, err
	}
	if err := p.advance(); err != nil {
		return term{}, err
	}
	t.nullsFirst = p.isKeyword("FIRST")
	if !t.nullsFirst && !p.isKeyword("LAST") {
		return term{}, mistake(p.token.at, "expected FIRST or LAST after NULLS, got %s", p.token)
	}
	return t, p.advance()
}

func (p *parser) isKeyword(word string) bool {
	return p.token.kind == tokenWord && strings.EqualFold(p.token.text, word)
}

// field reads the path of a field.
func (p *parser) field() ([]step, error) {
	t := p.token
	var n node
	var err error
	switch {
	case t.isSign("["):
		n, err = p.steps(nil, p.token.at)
	case t.kind == tokenWord:
		if err = p.advance(); err == nil {
			n, err = p.steps([]step{{name: t.text}}, t.at)
		}
	default:
		return nil, mistake(t.at, "expected the path of a field, got %s", t)
	}
	if err != nil {
		return nil, err
	}
	return n.(field).path, nil
}

// AppendKey appends what sorts bytewise as the item does in the order.
func (o Order) AppendKey(b []byte, item json.RawMessage) []byte {
	root := newValue(item)
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
			b = newValue(element).AppendOrdered(b)
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
		b = newValue(members[name]).AppendOrdered(b)
	}
	return append(b, 0)
}
