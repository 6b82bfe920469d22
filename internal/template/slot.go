package template

import (
	"fmt"
	"strings"
)

// slot is a value of a script in one form; all placeholders for it share the variable.
type slot struct {
	variable string
	expr     *expr
	written  string
	mode     slotMode
	number   bool // the shell evaluates it
	plain    bool // a negative number has no parentheses
	child    bool // another shell reads it, so it must stay in the environment
}

type slotMode uint8

const (
	oneText    slotMode = iota
	separate            // a variable for each element
	joined              // the elements with blanks between
	pastedCode          // no variable: part of the script
)

func modeOf(r *ref, p place) slotMode {
	switch {
	case r.expr.has("raw") && !p.data:
		return pastedCode
	case !r.expr.isList():
		return oneText
	case p.quote == bare && p.words:
		return separate
	}
	return joined
}

// text returns the value as one text.
func (s *slot) text(r Resolver) (string, error) {
	if s.expr.isList() {
		list, err := s.list(r)
		return strings.Join(list, " "), err
	}
	v, err := s.expr.value(r, s.written)
	if err != nil {
		return "", err
	}
	return s.checked(v.String())
}

// list returns the elements of the value.
func (s *slot) list(r Resolver) ([]string, error) {
	values, err := s.expr.values(r, s.written)
	if err != nil {
		return nil, err
	}
	list := make([]string, len(values))
	for i, v := range values {
		if list[i], err = s.checked(v.String()); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// checked refuses what the place cannot take.
func (s *slot) checked(text string) (string, error) {
	if !s.number {
		return text, refuseNUL(s.written, text)
	}
	n, err := wholeNumber(text)
	if err != nil {
		return "", notWhole(s.written, err)
	}
	if !s.plain && n[0] == '-' {
		n = "(" + n + ")"
	}
	return n, nil
}

// value resolves an expression that stands for one value.
func (e *expr) value(r Resolver, written string) (Value, error) {
	v, ok := r.Resolve(e.root)
	for i := 0; ok && i < len(e.steps); i++ {
		v, ok = e.steps[i].from(v)
	}
	switch {
	case e.def != nil && (!ok || v.isEmpty()):
		v = Text(*e.def)
	case !ok:
		return Value{}, missing(written, e.root)
	}
	return e.filter(v, r, written)
}

func (e *expr) filter(v Value, r Resolver, written string) (Value, error) {
	for _, f := range e.filters {
		var err error
		if v, err = filtered(v, f, r); err != nil {
			return Value{}, &BindError{Placeholder: written, Text: written + " " + err.Error()}
		}
	}
	return v, nil
}

// from takes the step. A step over every element is taken by values.
func (s step) from(v Value) (Value, bool) {
	if s.kind == byIndex {
		return v.element(s.index)
	}
	return v.Field(s.key)
}

// values resolves an expression that stands for a list. Elements without a field that the path goes on to are left out.
func (e *expr) values(r Resolver, written string) ([]Value, error) {
	v, ok := r.Resolve(e.root)
	list := []Value{v}
	for _, s := range e.steps {
		if !ok {
			break
		}
		before := len(list)
		list = s.fromAll(list)
		ok = s.kind == all || len(list) > 0 || before == 0
	}
	switch {
	case e.def != nil && (!ok || len(list) == 0 || len(list) == 1 && list[0].isEmpty()):
		list = []Value{Text(*e.def)}
	case !ok && e.has("opt"):
		return nil, nil
	case !ok:
		return nil, missing(written, e.root)
	}
	return e.filterAll(list, r, written)
}

func (s step) fromAll(list []Value) []Value {
	var next []Value
	for _, v := range list {
		if s.kind == all {
			next = append(next, v.elements()...)
			continue
		}
		if f, ok := s.from(v); ok {
			next = append(next, f)
		}
	}
	return next
}

func (e *expr) filterAll(list []Value, r Resolver, written string) ([]Value, error) {
	single := e.takesAll()
	for _, f := range e.filters {
		var next []Value
		for _, v := range list {
			if f.makesList() {
				next = append(next, expanded(v, f, single)...)
				continue
			}
			out, err := filtered(v, f, r)
			if err != nil {
				return nil, &BindError{Placeholder: written, Text: written + " " + err.Error()}
			}
			next = append(next, out)
		}
		list, single = next, single || f.makesList()
	}
	return list, nil
}

func missing(written, root string) error {
	if root == "item" {
		return &BindError{Placeholder: written, Text: written + " has no value for this item", Missing: true}
	}
	return &BindError{Placeholder: written, Text: written + " has no value here", Missing: true}
}

func notWhole(written string, err error) error {
	return &BindError{Placeholder: written, Text: written + " stands in arithmetic, and " + err.Error()}
}

func refuseNUL(written, text string) error {
	if at := strings.IndexByte(text, 0); at >= 0 {
		return &BindError{Placeholder: written, Text: fmt.Sprintf("%s has a value with a NUL byte at offset %d, which no shell can take", written, at)}
	}
	return nil
}
