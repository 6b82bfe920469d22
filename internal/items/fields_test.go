package items

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestFieldsAreThoseOfAllItems(t *testing.T) {
	for _, c := range []struct {
		items []string
		names []string
		known bool
	}{
		{nil, nil, false},
		{[]string{`{"b": 1, "a": {"c": 2}}`, `{"d": null}`}, []string{"a", "b", "d"}, true},
		{[]string{`{}`}, []string{}, true},
		{[]string{`"x"`, `1`, `true`}, nil, true},
		{[]string{`{"a": 1}`, `"x"`}, nil, false},
		{[]string{`{"a": 1}`, `[1]`}, nil, false},
		{[]string{`"x"`, `null`}, nil, false},
	} {
		var f Fields
		for _, item := range c.items {
			f.Add(json.RawMessage(item))
		}
		if names, known := f.Names(); known != c.known || !slices.Equal(names, c.names) || (names == nil) != (c.names == nil) {
			t.Errorf("%q: got %q, %v, want %q, %v", c.items, names, known, c.names, c.known)
		}
	}
}
