package items

import "strings"

// order is a compiled sort_by.
type order []term

// term is one of the fields that items are sorted by.
type term struct {
	path       []step
	descending bool
	nullsFirst bool
}

// parseOrder compiles a sort_by: path [ASC|DESC] [NULLS FIRST|LAST], and more of them after commas. The words are the same in small
// letters. An error shows the place with a caret.
func parseOrder(src string) (order, error) {
	var o order
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

// parseField compiles the path of a field. An error shows the place with a caret.
func parseField(src string) (path []step, err error) {
	err = parseWith(src, func(p *parser) error {
		if path, err = p.field(); err != nil {
			return err
		}
		if p.token.kind != tokenEnd {
			return mistake(p.token.at, "expected the end of the path of a field, got %s", p.token)
		}
		return nil
	})
	return path, err
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

// appendKey appends what sorts bytewise as the item does in the order.
func (o order) appendKey(b []byte, item value) []byte {
	find := inItem(item)
	for _, t := range o {
		v, _ := find(t.path)
		switch {
		case v.kind != null:
			b = append(b, 1)
			start := len(b)
			b = appendOrdered(b, v)
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
