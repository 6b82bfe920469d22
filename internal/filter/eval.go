package filter

import (
	"regexp"
	"strings"
)

// node is a part of an expression.
type node struct {
	eval     func(find lookup) Value
	path     []step // of a field
	constant *Value // of a constant
}

func constantNode(v Value) node {
	return node{eval: func(lookup) Value { return v }, constant: &v}
}

func fieldNode(path []step) node {
	return node{path: path, eval: func(find lookup) Value {
		v, _ := find(path) // what is missing is null
		return v
	}}
}

// testNode is true where holds says so.
func testNode(holds func(find lookup) bool) node {
	return node{eval: func(find lookup) Value { return booleanValue(holds(find)) }}
}

// holds reports whether the node counts as true.
func (n node) holds(find lookup) bool { return n.eval(find).truth() }

func negation(of node) node { return testNode(func(find lookup) bool { return !of.holds(find) }) }

func conjunction(left, right node) node {
	return testNode(func(find lookup) bool { return left.holds(find) && right.holds(find) })
}

func disjunction(left, right node) node {
	return testNode(func(find lookup) bool { return left.holds(find) || right.holds(find) })
}

func comparison(left, right node, test func(a, b Value) bool) node {
	return testNode(func(find lookup) bool { return test(coerce(left.eval(find), right.eval(find))) })
}

func match(left node, re *regexp.Regexp) node {
	return testNode(func(find lookup) bool {
		v := left.eval(find)
		return v.kind == Text && re.MatchString(v.text)
	})
}

// comparisons are the operators that are written as signs.
var comparisons = map[string]func(a, b Value) bool{
	"==": Value.Equal,
	"=":  Value.Equal,
	"!=": func(a, b Value) bool { return !a.Equal(b) },
	"<":  func(a, b Value) bool { return ordered(a, b) && a.compare(b) < 0 },
	"<=": func(a, b Value) bool { return ordered(a, b) && a.compare(b) <= 0 },
	">":  func(a, b Value) bool { return ordered(a, b) && a.compare(b) > 0 },
	">=": func(a, b Value) bool { return ordered(a, b) && a.compare(b) >= 0 },
}

// textTests are the operators that are written as words, in and matches excepted.
var textTests = map[string]func(a, b Value) bool{
	"contains":    Value.contains,
	"starts_with": func(a, b Value) bool { return bothTexts(a, b) && strings.HasPrefix(a.text, b.text) },
	"ends_with":   func(a, b Value) bool { return bothTexts(a, b) && strings.HasSuffix(a.text, b.text) },
}

// functions are those of one argument.
var functions = map[string]func(Value) Value{
	"length":      Value.length,
	"number":      Value.number,
	"is_null":     isKind(Null),
	"is_not_null": func(v Value) Value { return booleanValue(v.kind != Null) },
	"is_number":   isKind(Number),
	"is_string":   isKind(Text),
	"is_bool":     isKind(Boolean),
	"is_array":    isKind(Array),
	"is_object":   isKind(Object),
}

// number returns a text that is spelled like a number as one, for data in which all is text; null of anything
// else but a number.
func (v Value) number() Value {
	if v.kind == Text {
		v = v.as(Number)
	}
	if v.kind != Number {
		return Value{}
	}
	return v
}

func isKind(k Kind) func(Value) Value {
	return func(v Value) Value { return booleanValue(v.kind == k) }
}

func bothTexts(a, b Value) bool { return a.kind == Text && b.kind == Text }

// ordered reports whether one of the two can be less than the other.
func ordered(a, b Value) bool {
	return bothTexts(a, b) || a.kind == Number && b.kind == Number
}

func (v Value) compare(w Value) int {
	if v.kind == Number {
		return compareNumbers(v.text, w.text)
	}
	return strings.Compare(v.text, w.text)
}
