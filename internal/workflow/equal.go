package workflow

import (
	"encoding/json"
	"reflect"
)

// EqualSteps reports whether two steps do the same. Where they are written, and how often and how long they are tried, count for nothing.
func EqualSteps(a, b Step) bool {
	return reflect.DeepEqual(stepContent(a), stepContent(b))
}

// stepContent is what a step does, as JSON.
func stepContent(s Step) any {
	data, err := json.Marshal(s)
	if err != nil {
		panic("BUG: a step is no JSON: " + err.Error())
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		panic("BUG: a step is no JSON: " + err.Error())
	}
	return withoutPositions(v)
}

func withoutPositions(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range []string{"pos", "block", "indent", "timeout", "retry"} {
			delete(v, key)
		}
		for key := range v {
			v[key] = withoutPositions(v[key])
		}
	case []any:
		for i := range v {
			v[i] = withoutPositions(v[i])
		}
	}
	return v
}

// Change is a key of a workflow that has another value than in another one, and where it is.
type Change struct {
	Key string
	At  Pos
}

// Selection returns in what m chooses other items than before.
func (m *Map) Selection(before *Map) []Change {
	in, old := m.Input, before.Input
	in.Pos, old.Pos = Pos{}, Pos{}
	var changes []Change
	for _, k := range []struct {
		key  string
		same bool
		at   Pos
	}{
		{"input", reflect.DeepEqual(in, old), m.Input.Pos},
		{"json_path", m.JSONPath == before.JSONPath, m.JSONPathPos},
		{"filter", m.Filter == before.Filter, m.FilterPos},
		{"sort_by", m.SortBy == before.SortBy, m.SortByPos},
		{"distinct", m.Distinct == before.Distinct, m.DistinctPos},
		{"key", m.Key == before.Key, m.KeyPos},
		{"offset", m.Offset == before.Offset, m.Pos},
		{"max_items", reflect.DeepEqual(m.MaxItems, before.MaxItems), m.Pos},
	} {
		switch {
		case k.same:
		case k.at == Pos{}: // it is not written any more
			changes = append(changes, Change{k.key, m.Pos})
		default:
			changes = append(changes, Change{k.key, k.at})
		}
	}
	return changes
}
