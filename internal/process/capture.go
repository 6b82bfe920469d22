package process

import (
	"cmp"
	"fmt"

	"prodigy/internal/check"
)

const defaultLimit = 1 << 20

// Capture keeps what is written to it in bounded memory: all of it up to Limit bytes, then the head and the
// tail with a marker between. The zero Capture is ready for use, by one goroutine at a time.
type Capture struct {
	Limit int // 0: 1 MiB

	head  []byte // the first half of Limit
	tail  []byte // the other half: a ring once it is full
	next  int    // where the ring is written next
	total int64
}

func (c *Capture) Write(p []byte) (int, error) {
	n := len(p)
	c.total += int64(n)
	p = fill(&c.head, c.limit()/2, p)
	p = fill(&c.tail, c.limit()-c.limit()/2, p)
	if over := len(p) - len(c.tail); over > 0 {
		p = p[over:]
	}
	for len(p) > 0 {
		m := copy(c.tail[c.next:], p)
		p = p[m:]
		c.next = (c.next + m) % len(c.tail)
	}
	return n, nil
}

// fill appends to b up to limit and returns what did not fit.
func fill(b *[]byte, limit int, p []byte) []byte {
	m := min(limit-len(*b), len(p))
	*b = append(*b, p[:m]...)
	return p[m:]
}

func (c *Capture) limit() int { return cmp.Or(c.Limit, defaultLimit) }

// Text returns what was kept.
func (c *Capture) Text() string {
	if !c.Cut() {
		return string(c.head) + string(c.tail)
	}
	head := c.head[:check.WholeEnd(c.head)]
	tail := c.ring()
	tail = tail[check.WholeStart(tail):]
	return fmt.Sprintf("%s… [%d bytes left out] …%s", head, c.total-int64(len(head)+len(tail)), tail)
}

// Tail returns the last n bytes written, cut at the start of a character.
func (c *Capture) Tail(n int) string {
	last := c.ring()
	if len(last) < n && !c.Cut() {
		last = string(c.head) + last
	}
	last = last[max(0, len(last)-n):]
	if int64(len(last)) == c.total {
		return last
	}
	return last[check.WholeStart(last):]
}

// Cut reports whether more was written than was kept.
func (c *Capture) Cut() bool { return c.total > int64(c.limit()) }

// Total returns the number of bytes written.
func (c *Capture) Total() int64 { return c.total }

// ring returns the tail in the order in which it was written.
func (c *Capture) ring() string {
	return string(c.tail[c.next:]) + string(c.tail[:c.next])
}
