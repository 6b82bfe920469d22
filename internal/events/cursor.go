package events

import (
	"bytes"
	"time"
)

// cursor walks over a line in the form that Encode gives it. Once something is not as expected it is no longer ok, and what
// it returns means nothing: the line is then left to encoding/json.
type cursor struct {
	rest []byte
	ok   bool
	seen string // a text of the line: others that it ends in need no memory of their own
}

// skip goes past s.
func (c *cursor) skip(s string) {
	c.ok = c.has(s)
	if c.ok {
		c.rest = c.rest[len(s):]
	}
}

// has tells whether s comes next.
func (c *cursor) has(s string) bool {
	return c.ok && len(c.rest) >= len(s) && string(c.rest[:len(s)]) == s
}

// number reads an integer of at most 15 digits, without a sign.
func (c *cursor) number() int64 {
	n, size := digits(c.rest, 15)
	if size == 0 || size > 1 && c.rest[0] == '0' {
		c.ok = false
		return 0
	}
	c.rest = c.rest[size:]
	return n
}

// millis reads a Millis that is not negative.
func (c *cursor) millis() Millis {
	us := c.number() * 1000
	if c.ok && c.has(".") {
		n, size := digits(c.rest[1:], 3)
		if size == 0 {
			c.ok = false
			return 0
		}
		for i := size; i < 3; i++ {
			n *= 10
		}
		us += n
		c.rest = c.rest[1+size:]
	}
	if us > int64(longest/time.Microsecond) {
		c.ok = false
		return 0
	}
	return Millis(time.Duration(us) * time.Microsecond)
}

// longest is what millis reads at most; what is longer is left to others.
const longest = 100 * 365 * 24 * time.Hour

// digits reads a number of up to most digits and returns how many there were. A longer one is cut, so that what comes next
// is not what is expected.
func digits(b []byte, most int) (n int64, size int) {
	for size < min(len(b), most) && '0' <= b[size] && b[size] <= '9' {
		n = n*10 + int64(b[size]-'0')
		size++
	}
	return n, size
}

// text reads a string without escapes and without characters past ASCII.
func (c *cursor) text() string {
	raw := c.raw()
	if at := len(c.seen) - len(raw); at >= 0 && c.seen[at:] == string(raw) {
		return c.seen[at:]
	}
	s := string(raw)
	c.ok = c.ok && plain(s)
	return s
}

// raw reads up to the next quote.
func (c *cursor) raw() []byte {
	c.skip(`"`)
	end := bytes.IndexByte(c.rest, '"')
	if !c.ok || end < 0 {
		c.ok = false
		return nil
	}
	raw := c.rest[:end]
	c.rest = c.rest[end+1:]
	return raw
}

// time reads a quoted time of timeLayout.
func (c *cursor) time() time.Time {
	size := len(timeLayout) + 2
	if !c.ok || len(c.rest) < size || c.rest[0] != '"' || c.rest[size-1] != '"' {
		c.ok = false
		return time.Time{}
	}
	b := c.rest[1 : size-1]
	c.rest = c.rest[size:]
	t, ok := parseTime(b)
	c.ok = ok
	return t
}

// parseTime reads a time of timeLayout. It does what time.Parse does in a fifth of the time, which counts where a log of
// millions of lines is read.
func parseTime(b []byte) (time.Time, bool) {
	var fields [7]int64
	at := 0
	for i, width := range [...]int{4, 2, 2, 2, 2, 2, 6} {
		n, size := digits(b[at:], width)
		if size != width || b[at+width] != "--T::.Z"[i] {
			return time.Time{}, false
		}
		fields[i] = n
		at += width + 1
	}
	year, month, day := int(fields[0]), time.Month(fields[1]), int(fields[2])
	hour, minute, second := int(fields[3]), int(fields[4]), int(fields[5])
	t := time.Date(year, month, day, hour, minute, second, int(fields[6])*1000, time.UTC)
	// Date carries over what is out of range, such as the 31st of June.
	ok := hour < 24 && minute < 60 && second < 60 && t.Day() == day && t.Month() == month
	return t, ok
}
