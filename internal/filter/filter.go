// Package filter is the language in which workflows ask about values: filter of a map phase, sort_by, the
// paths of distinct and key, and the conditions of steps (when) and of variables.
//
// An expression is read once into a tree of nodes and then evaluated on many values. Values are JSON as it
// lies in memory: nothing is decoded but the fields that an expression asks for, and numbers are compared
// exactly, as they are spelled.
//
// The grammar, the weakest operator first:
//
//	or, ||
//	and, &&
//	not, !           of a comparison or what is in parentheses
//	==, =, !=, <, <=, >, >=, in [...], not in [...], contains, starts_with, ends_with, matches
//	length(x), number(x), is_null(x), is_not_null(x), is_number(x), is_string(x), is_bool(x), is_array(x), is_object(x),
//	contains(x, y), starts_with(x, y), ends_with(x, y), matches(x, 'regex')
//
// The words and, or, not and in may be in capitals. Constants may not: True would be a field, so it is refused.
//
// Paths are written item.a.b[0]["odd name"], with or without the item. A missing field is null. Only two
// numbers or two texts have an order; texts are compared byte by byte. Where a condition is wanted, null,
// false, 0 and what is empty count as false, all else as true. In a text \\, \", \', \n, \r, \t and \uXXXX
// are escapes; any other backslash stands for itself, so that regular expressions can be written as they are.
//
// The main types: a [Filter] asks about an item, a [Condition] about variables whose values come from
// outside, a [Path] finds a field of an item, and an [Order] sorts items by some of them. Errors of the
// parsers show the place with a caret.
package filter

import (
	"encoding/json"
)

// Filter is a compiled filter expression. It may be used by several goroutines at once.
type Filter struct {
	// TypedComparisons are in the order of the expression.
	TypedComparisons []TypedComparison

	// Paths are the names of its paths, each up to an index.
	Paths [][]string

	root node
}

// Parse compiles an expression. An error shows the place with a caret.
func Parse(src string) (*Filter, error) {
	f, p := new(Filter), &parser{lexer: lexer{src: src}}
	if err := p.parse(func() { f.root = p.whole() }); err != nil {
		return nil, err
	}
	f.TypedComparisons, f.Paths = p.typed, p.paths
	return f, nil
}

// Match reports whether the filter selects the item, which must be valid JSON.
func (f *Filter) Match(item json.RawMessage) bool {
	v := ValueOf(item)
	return f.root.holds(func(path []step) (Value, bool) { return inItem(v, path) })
}

// Mismatch returns, as it is written, a comparison that cannot hold for the item: its field is a text there and it
// compares with a number or a boolean, or the other way round. Without such a comparison it returns "".
func (f *Filter) Mismatch(item json.RawMessage) string {
	for _, t := range f.TypedComparisons {
		v, _ := inItem(ValueOf(item), t.field)
		if v.kind == Text && !t.OfTexts || (v.kind == Number || v.kind == Boolean) && t.OfTexts {
			return t.Written
		}
	}
	return ""
}

// MatchNamed reports whether the filter selects values that have names, each valid JSON: a path begins with
// one of them. Other names are null.
func (f *Filter) MatchNamed(values map[string]json.RawMessage) bool {
	return f.root.holds(func(path []step) (Value, bool) {
		raw, ok := values[path[0].name]
		if !ok || path[0].indexed {
			return Value{}, false
		}
		return ValueOf(raw).at(path[1:])
	})
}

// Has reports whether an item has the field at a path of a [Filter].
func Has(item json.RawMessage, path []string) bool {
	steps := make([]step, len(path))
	for i, name := range path {
		steps[i].name = name
	}
	if len(steps) == 0 {
		return true
	}
	_, ok := inItem(ValueOf(item), steps)
	return ok
}

// Path is the compiled path of a field of an item.
type Path struct{ steps []step }

// ParsePath compiles the path of a field. An error shows the place with a caret.
func ParsePath(src string) (Path, error) {
	var path Path
	p := &parser{lexer: lexer{src: src}}
	err := p.parse(func() {
		path.steps = p.field()
		p.expectEnd("the end of the field path")
	})
	return path, err
}

// In returns the field of the item, which must be valid JSON. The bool reports whether the item has the field.
func (p Path) In(item json.RawMessage) (Value, bool) { return inItem(ValueOf(item), p.steps) }
