package events

import (
	"bytes"
	"strconv"
)

// nextHead is how the line of the next record begins, up to its time. The zero value is of no record.
type nextHead struct {
	seq  int64
	text []byte
}

// begins tells whether a whole record begins so.
func (h *nextHead) begins(text []byte) bool {
	return h.seq > 0 && bytes.HasPrefix(text, h.text) && text[len(text)-1] == '}'
}

// expect makes it the head of record seq, which is mostly the one behind that it was of.
func (h *nextHead) expect(seq int64) {
	if seq != h.seq+1 || !h.count() {
		h.text = append(strconv.AppendInt(append(h.text[:0], numberKey...), seq, 10), toTime...)
	}
	h.seq = seq
}

// What stands around the number of a record.
const (
	numberKey = `{"seq":`
	toTime    = `,"time":"`
)

// count adds one to the number. It is false when that takes another digit.
func (h *nextHead) count() bool {
	for i := len(h.text) - len(toTime) - 1; i >= len(numberKey); i-- {
		if h.text[i] < '9' {
			h.text[i]++
			return true
		}
		h.text[i] = '0'
	}
	return false
}

// heads looks at the heads of lines one after the other. Those of a job differ in the number, the time and the item only, so that it mostly
// compares a line with the one before. The zero value has seen none.
type heads struct {
	alike []byte // from the end of the time to the end of the job's id in the correlation
	job   string // its id
}

// toType is what stands between the correlation and the name of the type.
const toType = `","type":`

// cut returns what the head says of the item (what follows the job's id in the correlation, as in /item_1), and the line from the name of the type
// on. It is not ok when the head is not in the form that Encode gives it, or has anything escaped.
func (h *heads) cut(l line) (item, rest []byte, ok bool) {
	rest, ok = l.behindTime()
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
	if !c.ok || !bytes.HasPrefix(c.rest, job) || !plain(job) {
		return false
	}
	end := len(rest) - len(c.rest) + len(job)
	h.alike, h.job = append(h.alike[:0], rest[:end]...), string(job)
	return true
}

// behindTime returns the line from the quote on that ends its time.
func (l line) behindTime() (rest []byte, ok bool) {
	end := l.body + len(timeLayout)
	if l.body == 0 || len(l.text) < end || bytes.IndexByte(l.text[l.body:end], '"') >= 0 {
		return nil, false
	}
	return l.text[end:], true
}
