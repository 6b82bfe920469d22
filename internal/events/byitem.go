package events

import (
	"bytes"
	"iter"
)

// About yields the records about an item, and those about the job. It decodes little else.
func About(dir, itemID string) iter.Seq2[Record, error] {
	item := appendQuoted([]byte(`"item_id":`), itemID)
	// In another form than Encode gives it, an id has blanks before it or escapes.
	another := func(text []byte) bool {
		at := bytes.Index(text, itemKey)
		return at >= 0 && !bytes.HasPrefix(text[at:], item) && bytes.IndexByte(text, '\\') < 0
	}
	lines := only(scan(dir), func(l line) bool { return !another(l.text) })
	return only(records(lines), func(r Record) bool {
		id := Subject(r.Event)
		return id == "" || id == itemID
	})
}

var itemKey = []byte(`"item_id":"`)
