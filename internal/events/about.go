package events

import "iter"

// About is Read without the records about other items than itemID. It decodes little more than what it yields.
func About(dir, itemID string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		var d decoder
		for l, err := range scan(dir) {
			if err == nil && d.heads.aboutAnother(l, itemID) {
				continue
			}
			var r Record
			if err == nil {
				r, err = d.decode(l)
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

// aboutAnother tells by the head of a line that it is about another item; all that it cannot tell of has to be decoded.
func (h *heads) aboutAnother(l line, itemID string) bool {
	item, _, ok := h.cut(l)
	return ok && len(item) > 1 && item[0] == '/' && string(item[1:]) != itemID
}
