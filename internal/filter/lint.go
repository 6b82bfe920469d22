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
func (p *parser) noteComparison(l, r node, start int, sign token) {
	if p.mistake != "" {
		return
	}
	left, right := p.between(start, sign.at), p.between(sign.at+len(sign.text), p.token.at)
	switch {
	case l.path != nil && isTyped(r):
		right, left = asText(r, right, left)
	case r.path != nil && isTyped(l):
		left, right = asText(l, left, right)
	case l.path != nil && looksTyped(r):
		right = strings.ToLower(r.constant.text)
	case r.path != nil && looksTyped(l):
		left = strings.ToLower(l.constant.text)
	default:
		return
	}
	t := TypedComparison{At: start, sign: sign.text, field: slices.Concat(l.path, r.path), Instead: left + " " +
		sign.text + " " + right}
	if looksTyped(l) || looksTyped(r) {
		p.numeric = p.note(p.numeric, t)
		return
	}
	p.typed = p.note(p.typed, t)
}

// noteList keeps a search of a field among numbers.
func (p *parser) noteList(of node, among []node, start int, word token) {
	other := func(e node) bool { return constantKind(e) != Number }
	if p.mistake != "" || of.path == nil || len(among) == 0 || slices.ContainsFunc(among, other) {
		return
	}
	left, list := p.between(start, word.at), p.between(word.at+len(word.text), p.token.at)
	t := TypedComparison{At: start, sign: word.text, field: of.path, Instead: "number(" + left + ") " +
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
func (p *parser) between(from, to int) string { return strings.TrimSpace(p.src[from:to]) }

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
	v := n.constant
	return v != nil && v.kind == Text && (v.as(Number).kind == Number || v.as(Boolean).kind == Boolean)
}

// constantKind is the kind of a constant, or null.
func constantKind(n node) Kind {
	if n.constant == nil {
		return Null
	}
	return n.constant.kind
}
