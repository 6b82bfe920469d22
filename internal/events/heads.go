package events

import "bytes"

// heads looks at the heads of lines one after the other. Those of a job differ in the number, the time and the item only, so that it mostly
// compares a line with the one before. The zero value has seen none.
type heads struct {
	alike []byte // from the end of the time to the end of the job's id in the correlation
}

// toType is what stands between the correlation and the name of the type.
const toType = `","type":`

// cut returns what the head says of the item (what follows the job's id in the correlation, as in /item_1), and the line from the name of the type
// on. It is not ok when the head is not in the form that Encode gives it, or has anything escaped.
func (h *heads) cut(text []byte) (item, rest []byte, ok bool) {
	rest, ok = behindTime(text)
	if !ok || !h.knows(rest) && !h.learn(rest) {
		return nil, nil, false
	}
	rest = rest[len(h.alike):]
	end := bytes.IndexByte(rest, '"')
	if end < 0 || len(rest)-end < len(toType) || string(rest[end:end+len(toType)]) != toType {
		return nil, nil, false
	}
	item, rest = rest[:end], rest[end+len(toType):]
	return item, rest, bytes.IndexByte(item, '\\') < 0
}

// knows tells whether a line goes on behind its time as the one before did.
func (h *heads) knows(rest []byte) bool {
	return len(h.alike) > 0 && bytes.HasPrefix(rest, h.alike)
}

// learn looks how a line goes on behind its time.
func (h *heads) learn(rest []byte) bool {
	c := cursor{rest: rest, ok: true}
	c.skip(`","job_id":`)
	job := c.raw()
	c.skip(`,"correlation_id":"`)
	if !c.ok || !bytes.HasPrefix(c.rest, job) || bytes.IndexByte(job, '\\') >= 0 {
		return false
	}
	end := len(rest) - len(c.rest) + len(job)
	h.alike = append(h.alike[:0], rest[:end]...)
	return true
}

// behindTime returns the line from the quote on that ends its time.
func behindTime(text []byte) (rest []byte, ok bool) {
	c := cursor{rest: text, ok: true}
	c.skip(`{"seq":`)
	c.number()
	c.skip(`,"time":"`)
	if !c.ok || len(c.rest) < len(timeLayout) || bytes.IndexByte(c.rest[:len(timeLayout)], '"') >= 0 {
		return nil, false
	}
	return c.rest[len(timeLayout):], true
}
