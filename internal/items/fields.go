package items

import (
	"encoding/json"
	"maps"
	"slices"

	"prodigy/internal/rawjson"
)

// Fields collects the fields that items have. Add the items one by one to the zero Fields.
type Fields struct {
	// names are those of all objects. Nil means that no item was an object.
	names map[string]bool

	// texts reports whether some item is a text, a number or a boolean.
	texts bool

	// other reports whether some item is a list or null, or there are more than maxFields names: then nothing is known.
	other bool
}

// maxFields is how many names are collected.
const maxFields = 1000

// Add adds the fields of an item.
func (f *Fields) Add(item json.RawMessage) {
	switch {
	case f.other:
	case len(item) > 0 && item[0] == '{':
		if f.names == nil {
			f.names = map[string]bool{}
		}
		for name := range rawjson.Members(item) {
			f.names[rawjson.Unquote(name)] = true
		}
		f.other = len(f.names) > maxFields
	case len(item) == 0 || item[0] == '[' || item[0] == 'n':
		f.other = true
	default:
		f.texts = true
	}
}

// Names returns the names of all fields that some item has, in their order; nil if every item is a text, a
// number or a boolean. They are not known of other items, nor when there is none.
func (f *Fields) Names() (names []string, known bool) {
	if f.other || f.texts == (f.names != nil) {
		return nil, false
	}
	if f.texts {
		return nil, true
	}
	return append([]string{}, slices.Sorted(maps.Keys(f.names))...), true
}
