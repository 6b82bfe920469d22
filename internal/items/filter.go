package items

import "encoding/json"

// Filter is a compiled filter expression. It may be used by several goroutines at once.
//
//	or, ||           the weakest
//	and, &&
//	not, !           of a comparison or what is in parentheses
//	==, =, !=, <, <=, >, >=, in [...], contains, starts_with, ends_with, matches
//	length(x), number(x), is_null(x), is_number(x), is_string(x), is_bool(x), is_array(x), is_object(x), matches(x, 'regex')
//
// Paths are written item.a.b[0]["odd name"], with or without the item. A missing field is null. Only two numbers or two texts have an
// order; texts are compared byte by byte. Where a condition is wanted, null, false, 0 and what is empty count as false, all else as true.
// In text \\, \", \', \n, \r, \t and \uXXXX are escapes; any other backslash stands for itself, so that
// regular expressions can be written as they are.
type Filter struct {
	root  node
	typed []typed
}

// ParseFilter compiles an expression. An error shows the place with a caret.
func ParseFilter(src string) (*Filter, error) {
	f := new(Filter)
	err := parseWith(src, func(p *parser) (err error) {
		f.root, err = p.whole()
		f.typed = p.typed
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Match reports whether the filter selects the item.
func (f *Filter) Match(item json.RawMessage) bool {
	return f.root.eval(inItem(newValue(item))).truth()
}

// step is one step of a path: a name, or an index.
type step struct {
	name    string
	index   int
	indexed bool
}

// lookup finds the value of a path. The bool is false when there is none.
type lookup func(path []step) (value, bool)

// inItem looks values up in an item, with or without the word item before the path.
func inItem(item value) lookup {
	return func(path []step) (value, bool) {
		if !path[0].indexed && path[0].name == "item" {
			path = path[1:]
		}
		return item.at(path)
	}
}

// at follows a path down from v.
func (v value) at(path []step) (found value, ok bool) {
	for _, s := range path {
		if s.indexed {
			v, ok = v.element(s.index)
		} else {
			v, ok = v.member(s.name)
		}
		if !ok {
			return value{}, false
		}
	}
	return v, true
}
