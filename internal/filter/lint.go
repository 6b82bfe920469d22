package filter

import (
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
