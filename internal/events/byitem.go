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
	mayMatter := func(yield func(line, error) bool) {
		for l, err := range scan(dir) {
			if err == nil && another(l.text) {
				continue
			}
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
	return func(yield func(Record, error) bool) {
		for r, err := range records(mayMatter) {
			if err == nil && r.Event.About() != "" && r.Event.About() != itemID {
				continue
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

var itemKey = []byte(`"item_id":"`)
