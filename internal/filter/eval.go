package filter

import (
	"regexp"
	"strings"
)

// node is a part of an expression.
type node interface {
	eval(find lookup) Value
}

type (
	constant    struct{ value Value }
	field       struct{ path []step }
	negation    struct{ of node }
	conjunction struct{ left, right node }
	disjunction struct{ left, right node }
	comparison  struct {
		left, right node
		test        func(a, b Value) bool
	}
	oneOf struct {
		left node
		list []node
	}
	match struct {
		left node
		re   *regexp.Regexp
	}
	call struct {
		function func(Value) Value
		argument node
	}
)

func (n constant) eval(lookup) Value { return n.value }

func (n field) eval(find lookup) Value {
	v, _ := find(n.path) // what is missing is null
	return v
}

func (n negation) eval(find lookup) Value { return booleanValue(!n.of.eval(find).truth()) }

func (n conjunction) eval(find lookup) Value {
	return booleanValue(n.left.eval(find).truth() && n.right.eval(find).truth())
}

func (n disjunction) eval(find lookup) Value {
	return booleanValue(n.left.eval(find).truth() || n.right.eval(find).truth())
}

func (n comparison) eval(find lookup) Value {
	return booleanValue(n.test(coerce(n.left.eval(find), n.right.eval(find))))
}

func (n oneOf) eval(find lookup) Value {
	left := n.left.eval(find)
	for _, element := range n.list {
		if left.equal(element.eval(find)) {
			return booleanValue(true)
		}
	}
	return booleanValue(false)
}

func (n match) eval(find lookup) Value {
	left := n.left.eval(find)
	return booleanValue(left.kind == Text && n.re.MatchString(left.text))
}

func (n call) eval(find lookup) Value { return n.function(n.argument.eval(find)) }

// comparisons are the operators that are written as signs.
var comparisons = map[string]func(a, b Value) bool{
	"==": Value.equal,
	"=":  Value.equal,
	"!=": func(a, b Value) bool { return !a.equal(b) },
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
