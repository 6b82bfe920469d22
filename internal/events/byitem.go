package events

import (
	"bytes"
	"iter"
)

// About yields the records about an item, and those about the job. It decodes little else.
func About(dir, itemID string) iter.Seq2[Record, error] {
	item := appendQuoted([]byte(`"item_id":`), itemID)
	return about(dir, func(text []byte) bool { return bytes.HasPrefix(text, item) },
		func(id string) bool { return id == "" || id == itemID })
}

// AboutItems yields the records about the items with these ids. It decodes little else.
func AboutItems(dir string, ids map[string]bool) iter.Seq2[Record, error] {
	mayBe := func(text []byte) bool {
		id, _, _ := bytes.Cut(text[len(itemKey):], []byte(`"`))
		return ids[string(id)]
	}
	return about(dir, mayBe, func(id string) bool { return ids[id] })
}

// about yields the records whose item is wanted, which is "" for those about the job. MayBe looks at the line
// of a record from the key of its item on, and reports whether that may be one of them.
func about(dir string, mayBe func(text []byte) bool, wanted func(id string) bool) iter.Seq2[Record, error] {
	// In another form than Encode gives it, an id has blanks before it or escapes.
	another := func(text []byte) bool {
		at := bytes.Index(text, itemKey)
		return at >= 0 && !mayBe(text[at:]) && bytes.IndexByte(text, '\\') < 0
	}
	lines := only(scan(dir), func(l line) bool { return !another(l.text) })
	return only(records(lines), func(r Record) bool { return wanted(Subject(r.Event)) })
}

var itemKey = []byte(`"item_id":"`)
