package events

import (
	"bytes"
	"time"

	"prodigy/internal/outputs"
)

// The names of the types that decodeHot reads.
const (
	started   = "AgentStarted"
	completed = "AgentCompleted"
)

// decodeHot reads the two events that a log has most of, in the form that Encode gives them: a replay of a
// large job reads little else, and encoding/json takes ten times as long. What it does not expect, such as
// escapes, captured values or a field that came later, is not ok and left to decodeEvent, which gives the
// same event for all that is.
func (h heading) decodeHot() (Event, bool) {
	c := cursor{rest: h.rest, ok: true, correlation: h.CorrelationID}
	switch h.name {
	case started:
		var e AgentStarted
		e.AttemptID, e.Worker = c.attempt()
		return e, c.end()
	case completed:
		var e AgentCompleted
		e.AttemptID, e.Worker = c.attempt()
		c.outcome(&e)
		return e, c.end()
	}
	return nil, false
}

// attempt reads what names an attempt, and its slot.
func (c *cursor) attempt() (id AttemptID, worker int) {
	id.ItemID = c.textOf(`,"item_id":`)
	id.ItemIndex = c.count(`,"item_index":`)
	id.AgentID = c.textOf(`,"agent_id":`)
	id.Attempt = c.count(`,"attempt":`)
	return id, c.numberOf(`,"worker":`)
}

// count reads a number that is bounded.
func (c *cursor) count(key string) int {
	n := c.numberOf(key)
	c.ok = c.ok && 0 <= n && n <= maxCount
	return n
}

// outcome reads what an AgentCompleted has more than an AgentStarted.
func (c *cursor) outcome(e *AgentCompleted) {
	c.skip(`,"duration_ms":`)
	e.DurationMS = c.millis()
	e.ExitCode = c.numberOf(`,"exit_code":`)
	e.Output = c.textIn(`,"output":`)
	e.OutputFile = c.textIn(`,"output_file":`)
	e.OutputCRC = c.textIn(`,"output_crc":`)
	if c.has(`,"outputs":`) {
		c.skip(`,"outputs":{"offset":`)
		s := outputs.Span{Offset: c.number()}
		c.skip(`,"length":`)
		s.Length = c.number()
		c.skip(`}`)
		e.Outputs = &s
	}
}

// typeName reads the name of a type; those that come often need no memory of their own.
func (c *cursor) typeName() string {
	switch raw := c.raw(); string(raw) {
	case started:
		return started
	case completed:
		return completed
	default:
		c.ok = c.ok && plain(raw)
		return string(raw)
	}
}

// correlationID reads the correlation id, which item ids are parts of.
func (c *cursor) correlationID() string {
	raw := c.raw()
	c.ok = c.ok && plain(raw)
	c.correlation = string(raw)
	return c.correlation
}

func (c *cursor) textOf(key string) string {
	c.skip(key)
	// A string without escapes and without characters past ASCII.
	raw := c.raw()
	if at := len(c.correlation) - len(raw); at >= 0 && c.correlation[at:] == string(raw) {
		return c.correlation[at:]
	}
	c.ok = c.ok && plain(raw)
	return string(raw)
}

// textIn is textOf for a field that may be left out.
func (c *cursor) textIn(key string) string {
	if !c.has(key) {
		return ""
	}
	return c.textOf(key)
}

func (c *cursor) numberOf(key string) int {
	c.skip(key)
	return int(c.number())
}

// end reports whether no field is left.
func (c *cursor) end() bool { return c.ok && len(c.rest) == 0 }

// cursor walks over a line in the form that Encode gives it. Once something is not as expected it is no
// longer ok, and what it returns means nothing: the line is then left to encoding/json.
type cursor struct {
	rest []byte
	ok   bool

	// correlation is that of the line: a text that it ends with needs no memory of its own.
	correlation string
}

// skip goes past s.
func (c *cursor) skip(s string) {
	c.ok = c.has(s)
	if c.ok {
		c.rest = c.rest[len(s):]
	}
}

// has reports whether s comes next.
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

// digits reads a number of up to most digits and returns how many there were. A longer one is cut, so that
// what comes next is not what is expected.
func digits(b []byte, most int) (n int64, size int) {
	for size < min(len(b), most) && '0' <= b[size] && b[size] <= '9' {
		n = n*10 + int64(b[size]-'0')
		size++
	}
	return n, size
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
	text := string(c.rest[1 : size-1])
	c.rest = c.rest[size:]
	t, err := time.Parse(time.RFC3339Nano, text)
	c.ok = err == nil && text[len(text)-1] == 'Z'
	return t
}
