package filter

import (
	"encoding/json"
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
	p := &parser{lexer: lexer{src: src}}
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
