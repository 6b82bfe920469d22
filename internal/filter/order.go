package filter

import (
	"encoding/json"
)

// Order is a compiled sort_by.
type Order []term

// term is one of the fields that items are sorted by.
type term struct {
	written    string
	path       []step
	descending bool
	nullsFirst bool

	// number sorts texts that are spelled like numbers as numbers, and all else as nulls.
	number bool
}

// ParseOrder compiles a sort_by: path [ASC|DESC] [NULLS FIRST|LAST], and more of them after commas. A path may be in
// number(…). The words are the same in small letters. An error shows the place with a caret.
func ParseOrder(src string) (Order, error) {
	var o Order
	p := &parser{lexer: lexer{src: src}}
	err := p.parse(func() {
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
	start := p.token.at
	t := term{path: p.field()}
	t.written = p.between(start, p.token.at)
	if t.number = p.token.isSign("(") && p.between(start, p.token.at) == "number"; t.number {
		p.advance()
		t.path = p.field()
		p.expect(")", "after the field of number")
	}
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

// AppendKey appends what sorts bytewise as the item does in the order.
func (o Order) AppendKey(b []byte, item json.RawMessage) []byte {
	root := ValueOf(item)
	for _, t := range o {
		v, _ := inItem(root, t.path)
		if t.number {
			v = v.number()
		}
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

// Misplaced returns a field, as it is written, by which two items are in another order as texts than as the numbers
// that these spell. Without such a field it returns "".
func (o Order) Misplaced(a, b json.RawMessage) string {
	for _, t := range o {
		v, _ := inItem(ValueOf(a), t.path)
		w, _ := inItem(ValueOf(b), t.path)
		x, y := v.number(), w.number()
		if !t.number && v.kind == Text && w.kind == Text && x.kind == Number && y.kind == Number &&
			v.compare(w)*x.compare(y) < 0 {
			return t.written
		}
	}
	return ""
}
