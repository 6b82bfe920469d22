package events

import (
	"bytes"
	"iter"
)

// About is Read without the records about other items than itemID. It decodes little more than what it yields.
func About(dir, itemID string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for l, err := range scan(dir) {
			if err == nil && aboutAnother(l.text, itemID) {
				continue
			}
			var r Record
			if err == nil {
				r, err = l.decode()
			}
			if err == nil && r.Event.About() != "" && r.Event.About() != itemID {
				continue
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// aboutAnother tells by the head of a line that it is about another item. It says so only of a head in the form that Encode gives
// it, in which nothing is escaped; all others have to be decoded.
func aboutAnother(text []byte, itemID string) bool {
	c := cursor{rest: text, ok: true}
	c.skip(`{"seq":`)
	c.number()
	c.skip(`,"time":`)
	c.raw()
	c.skip(`,"job_id":`)
	job := c.raw()
	c.skip(`,"correlation_id":`)
	whole := c.raw()
	c.skip(`,"type":`)
	if !c.ok || bytes.IndexByte(whole, '\\') >= 0 {
		return false
	}
	item, ok := bytes.CutPrefix(whole, job)
	return ok && len(item) > 1 && string(item[1:]) != itemID
}
