package filter

import (
	"slices"
	"strings"
)

// TypedComparison is a comparison of a field with a number or a boolean. No text equals one, so that of data
// whose values are all texts it holds for no item, or for every one.
type TypedComparison struct {
	At      int    // where it starts, in bytes
	Written string // how it is written
	Instead string // what means the same of texts

	sign  string // its operator
	field []step
}

// HoldsFor says for which item the comparison holds when its field is a text: "no" or "every".
func (t TypedComparison) HoldsFor() string {
	if t.sign == "!=" || strings.HasPrefix(strings.ToLower(t.sign), "not") {
		return "every"
	}
	return "no"
}

// noteComparison keeps a comparison that starts at start when it is typed.
func (p *parser) noteComparison(c comparison, start int, sign token) {
	left, right := p.between(start, sign.at), p.between(sign.at+len(sign.text), p.token.at)
	switch {
	case isField(c.left) && isTyped(c.right):
		right, left = asText(c.right, right, left)
	case isField(c.right) && isTyped(c.left):
		left, right = asText(c.left, left, right)
	case isField(c.left) && looksTyped(c.right):
		right = strings.ToLower(c.right.(constant).value.text)
	case isField(c.right) && looksTyped(c.left):
		left = strings.ToLower(c.left.(constant).value.text)
	default:
		return
	}
	t := TypedComparison{At: start, sign: sign.text, field: fieldOf(c.left, c.right), Instead: left + " " +
		sign.text + " " + right}
	if looksTyped(c.left) || looksTyped(c.right) {
		p.numeric = p.note(p.numeric, t)
		return
	}
	p.typed = p.note(p.typed, t)
}

// noteList keeps a search of a field among numbers.
func (p *parser) noteList(n oneOf, start int, word token) {
	other := func(e node) bool { return constantKind(e) != Number }
	if !isField(n.left) || len(n.list) == 0 || slices.ContainsFunc(n.list, other) {
		return
	}
	left, list := p.between(start, word.at), p.between(word.at+len(word.text), p.token.at)
	t := TypedComparison{At: start, sign: word.text, field: fieldOf(n.left), Instead: "number(" + left + ") " +
		word.text + " " + list}
	p.typed = p.note(p.typed, t)
}

// note adds a comparison that ends before the token. A condition has no such comparisons: the types of its values are
// known only when it runs.
func (p *parser) note(all []TypedComparison, t TypedComparison) []TypedComparison {
	if p.terms != nil {
		return all
	}
	t.Written = p.between(t.At, p.token.at)
	return append(all, t)
}

// between returns a part of the expression.
func (p *parser) between(from, to int) string { return strings.TrimSpace(p.lexer.src[from:to]) }

// asText returns how a constant and the field that it is compared with are written for fields that are texts.
func asText(constant node, written, field string) (constantText, fieldText string) {
	if constantKind(constant) == Boolean {
		return `"` + written + `"`, field
	}
	return written, "number(" + field + ")"
}

// isTyped reports whether n is a constant that no text can equal.
func isTyped(n node) bool {
	k := constantKind(n)
	return k == Number || k == Boolean
}

// looksTyped reports whether n is a text that is spelled like a number or a boolean.
func looksTyped(n node) bool {
	c, _ := n.(constant)
	v := c.value
	return v.kind == Text && (v.as(Number).kind == Number || v.as(Boolean).kind == Boolean)
}

// fieldOf returns the path of the first field among nodes.
func fieldOf(nodes ...node) []step {
	for _, n := range nodes {
		if f, ok := n.(field); ok {
			return f.path
		}
	}
	return nil
}

func isField(n node) bool {
	_, ok := n.(field)
	return ok
}

// constantKind is the kind of a constant, or null.
func constantKind(n node) Kind {
	c, _ := n.(constant)
	return c.value.kind
}
