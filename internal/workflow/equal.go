package workflow

import (
	"cmp"
	"encoding/json"
	"reflect"

	"prodigy/internal/check"
)

// EqualSteps reports whether two steps do the same work. It ignores positions, descriptions, retries and
// timeouts, and what they say of being run twice.
func EqualSteps(a, b Step) bool {
	return reflect.DeepEqual(stepContent(a), stepContent(b))
}

// stepContent returns s as decoded JSON, without what EqualSteps ignores.
func stepContent(s Step) any {
	var v any
	if err := json.Unmarshal(check.Must(json.Marshal(s)), &v); err != nil {
		panic("BUG: a step is no JSON: " + err.Error())
	}
	const ignored = "pos block indent timeout retry description idempotent"
	return without(v, func(key string, _ any) bool { return check.Among(ignored, key) })
}

// without removes from v, which is decoded JSON, the members of objects that drop reports, the inner ones first.
func without(v any, drop func(key string, value any) bool) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if v[key] = without(value, drop); drop(key, v[key]) {
				delete(v, key)
			}
		}
	case []any:
		for i := range v {
			v[i] = without(v[i], drop)
		}
	}
	return v
}

// Content returns as JSON what a list of steps does. It leaves out what EqualSteps ignores, and what is null
// or empty, so that a later version with more keys gives the same: a new field that is neither when it is not
// written needs omitempty.
func Content(steps []Step) []byte {
	all := make([]any, len(steps))
	for i, s := range steps {
		all[i] = without(stepContent(s), func(_ string, value any) bool { return isEmpty(value) })
	}
	return check.Must(json.Marshal(all))
}

// isEmpty reports whether a value is null or has nothing in it. A 0 that is written may differ from one that is not.
func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return v == ""
}

// Change is a key whose value differs between two workflows, with its position.
type Change struct {
	Key string
	At  Pos
}

// selectionKeys are those that say which items a map phase has.
const selectionKeys = "input json_path filter sort_by distinct key offset max_items"

// Selection returns the keys by which m selects other items than before.
func (m *Map) Selection(before *Map) []Change {
	var changes []Change
	for field, now := range reflect.ValueOf(m).Elem().Fields() {
		key := field.Tag.Get("yaml")
		if key == "" || !check.Among(selectionKeys, key) {
			continue
		}
		is, at := placed(now.Interface())
		was, _ := placed(reflect.ValueOf(before).Elem().FieldByIndex(field.Index).Interface())
		if !reflect.DeepEqual(is, was) {
			changes = append(changes, Change{key, cmp.Or(at, m.Pos)})
		}
	}
	return changes
}

// placed returns the value of a key and where it is written, if that is known.
func placed(v any) (value any, at Pos) {
	switch v := v.(type) {
	case Text:
		return v.Value, v.At(1, 1)
	case Input:
		at, v.Pos = v.Pos, Pos{}
		return v, at
	}
	return v, Pos{}
}
