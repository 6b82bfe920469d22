package items

import (
	"regexp"
	"strings"
)

// node is a part of an expression.
type node interface {
	eval(find lookup) value
}

type (
	constant    struct{ value value }
	field       struct{ path []step }
	negation    struct{ of node }
	conjunction struct{ left, right node }
	disjunction struct{ left, right node }
	comparison  struct {
		left, right node
		test        func(a, b value) bool
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
		function func(value) value
		argument node
	}
)

func (n constant) eval(lookup) value { return n.value }

func (n field) eval(find lookup) value {
	v, _ := find(n.path) // what is missing is null
	return v
}

func (n negation) eval(find lookup) value { return booleanValue(!n.of.eval(find).truth()) }

func (n conjunction) eval(find lookup) value {
	return booleanValue(n.left.eval(find).truth() && n.right.eval(find).truth())
}

func (n disjunction) eval(find lookup) value {
	return booleanValue(n.left.eval(find).truth() || n.right.eval(find).truth())
}

func (n comparison) eval(find lookup) value {
	return booleanValue(n.test(agree(n.left.eval(find), n.right.eval(find))))
}

func (n oneOf) eval(find lookup) value {
	left := n.left.eval(find)
	for _, element := range n.list {
		if left.equal(element.eval(find)) {
			return booleanValue(true)
		}
	}
	return booleanValue(false)
}

func (n match) eval(find lookup) value {
	left := n.left.eval(find)
	return booleanValue(left.kind == text && n.re.MatchString(left.text))
}

func (n call) eval(find lookup) value { return n.function(n.argument.eval(find)) }

// comparisons are the operators that are written as signs.
func comparisons() map[string]func(a, b value) bool {
	return map[string]func(a, b value) bool{
		"==": value.equal,
		"=":  value.equal,
		"!=": func(a, b value) bool { return !a.equal(b) },
		"<":  func(a, b value) bool { return ordered(a, b) && a.compare(b) < 0 },
		"<=": func(a, b value) bool { return ordered(a, b) && a.compare(b) <= 0 },
		">":  func(a, b value) bool { return ordered(a, b) && a.compare(b) > 0 },
		">=": func(a, b value) bool { return ordered(a, b) && a.compare(b) >= 0 },
	}
}

// textTests are the operators that are written as words, in and matches excepted.
func textTests() map[string]func(a, b value) bool {
	return map[string]func(a, b value) bool{
		"contains":    value.contains,
		"starts_with": func(a, b value) bool { return bothTexts(a, b) && strings.HasPrefix(a.text, b.text) },
		"ends_with":   func(a, b value) bool { return bothTexts(a, b) && strings.HasSuffix(a.text, b.text) },
	}
}

// functions are those of one argument.
func functions() map[string]func(value) value {
	return map[string]func(value) value{
		"length":    value.length,
		"number":    value.number,
		"is_null":   isKind(null),
		"is_number": isKind(number),
		"is_string": isKind(text),
		"is_bool":   isKind(boolean),
		"is_array":  isKind(array),
		"is_object": isKind(objectKind),
	}
}

// number returns a text that is spelled like a number as one, for data in which all is text; null of anything else but a number.
func (v value) number() value {
	if v.kind == text {
		v = v.as(number)
	}
	if v.kind != number {
		return value{}
	}
	return v
}

func isKind(k kind) func(value) value {
	return func(v value) value { return booleanValue(v.kind == k) }
}

func bothTexts(a, b value) bool { return a.kind == text && b.kind == text }

// ordered reports whether one of the two can be less than the other.
func ordered(a, b value) bool {
	return bothTexts(a, b) || a.kind == number && b.kind == number
}

func (v value) compare(w value) int {
	if v.kind == number {
		return compareNumbers(v.text, w.text)
	}
	return strings.Compare(v.text, w.text)
}
