package filter

import (
	"cmp"
	"encoding/json"
)

// Order is a compiled sort_by.
type Order []term

// term is one of the fields that items are sorted by.
type term struct {
	path       []step
	descending bool
	nullsFirst bool

	// number sorts texts that are spelled like numbers as numbers, and all else as nulls.
	number bool

	// written is how the field is written, and seen what its values were so far.
	written string
	seen    spellings
}

// spellings are what the values of a field are like.
type spellings struct {
	// length is that of the first text that is spelled like a number.
	length int
	// uneven means that another has another length, so that the order of texts is not that of numbers.
	uneven bool
	// others are values that are neither such a text nor null.
	others int
}

// add notes a value.
func (s *spellings) add(v Value) {
	switch {
	case v.kind == Null || s.others > 0:
	case v.kind != Text || v.number().kind != Number:
		s.others++
	default:
		s.length = cmp.Or(s.length, len(v.text))
		s.uneven = s.uneven || s.length != len(v.text)
	}
}

// ParseOrder compiles a sort_by: path [ASC|DESC] [NULLS FIRST|LAST], and more of them after commas. A path may be in
// number(…). The words are the same in small letters. An error shows the place with a caret.
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
	start := p.token.at
	t := term{path: p.field()}
	if t.number = p.token.isSign("(") && p.between(start, p.token.at) == "number"; t.number {
		p.advance()
		t.path = p.field()
		p.expect(")", "after the field of number")
	}
	t.written = p.between(start, p.token.at)
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

// NumbersAsTexts returns the fields all of whose values so far were texts that are spelled like numbers, and come in an
// order that is not that of numbers.
func (o Order) NumbersAsTexts() (fields []string) {
	for _, t := range o {
		if t.seen.uneven && t.seen.others == 0 {
			fields = append(fields, t.written)
		}
	}
	return fields
}

// AppendKey appends what sorts bytewise as the item does in the order. It is not safe for concurrent use.
func (o Order) AppendKey(b []byte, item json.RawMessage) []byte {
	root := ValueOf(item)
	for i := range o {
		t := &o[i]
		v, _ := inItem(root, t.path)
		if t.number {
			v = v.number()
		} else {
			t.seen.add(v)
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
