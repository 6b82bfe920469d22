package items

import (
	"fmt"
	"slices"

	"github.com/ohler55/ojg/jp"
)

// matches reports whether the document passes a filter of a path.
func (d *document) matches(f *jp.Filter) (ok bool, err error) {
	defer recoverEvaluation(&err)
	return f.Match(d.value), nil
}

// recoverEvaluation makes an error of a panic of ojg, which it gives, for one, where a filter compares two arrays.
func recoverEvaluation(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("json_path: cannot be evaluated on this data: %v", r)
	}
}

// get calls take with what the path selects.
func (d *document) get(p path, take func([]byte) error) error {
	found, err := d.find(d.value, p)
	if err != nil {
		return err
	}
	for _, v := range found {
		if err := take(d.spell(nil, v)); err != nil {
			return err
		}
	}
	return nil
}

// find returns what the path selects in v. A filter that measures objects is evaluated on each value apart, because the form that it
// needs has no order.
func (d *document) find(v any, p path) ([]any, error) {
	i := slices.IndexFunc(p.expr, isFilter)
	if !p.plain || i < 0 {
		return selected(v, p.expr)
	}
	parents, err := above(v, p.expr[:i])
	if err != nil {
		return nil, err
	}
	filter, rest := p.expr[i].(*jp.Filter), path{expr: p.expr[i+1:], plain: true}
	var found []any
	for _, parent := range parents {
		for _, child := range children(parent) {
			if ok, err := load(d.spell(nil, child), true).matches(filter); err != nil {
				return nil, err
			} else if !ok {
				continue
			}
			more, err := d.find(child, rest)
			if err != nil {
				return nil, err
			}
			found = append(found, more...)
		}
	}
	return found, nil
}

func isFilter(frag jp.Frag) bool {
	_, ok := frag.(*jp.Filter)
	return ok
}

// selected returns what a path selects in v, as ojg has it.
func selected(v any, path jp.Expr) (found []any, err error) {
	defer recoverEvaluation(&err)
	isStep := func(frag jp.Frag) bool { return frag != jp.Root('$') && frag != jp.At('@') }
	switch _, isObject := v.(object); {
	case !slices.ContainsFunc(path, isStep):
		return []any{v}, nil
	case !isObject && !isArray(v):
		return nil, nil // nothing is below a scalar
	}
	return path.Get(v), nil
}

func isArray(v any) bool {
	_, ok := v.([]any)
	return ok
}

// above returns the values whose children come next after the path.
func above(v any, path jp.Expr) ([]any, error) {
	last := len(path) - 1
	if last < 0 || path[last] != jp.Descent('.') {
		return selected(v, path)
	}
	tops, err := selected(v, path[:last])
	var all []any
	for _, top := range tops {
		all = descend(all, top)
	}
	return all, err
}

// descend appends what lies below v, and then v.
func descend(all []any, v any) []any {
	for _, child := range children(v) {
		all = descend(all, child)
	}
	return append(all, v)
}

// children returns the elements or members of v, in order.
func children(v any) []any {
	switch v := v.(type) {
	case []any:
		return v
	case object:
		all := make([]any, 0, len(v.Keys()))
		for _, name := range v.Keys() {
			member, _ := v.ValueForKey(name)
			all = append(all, member)
		}
		return all
	}
	return nil
}
