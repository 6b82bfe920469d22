package outputs

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"time"

	"prodigy/internal/jobs"

	"github.com/go-json-experiment/json/jsontext"
)

// decodeLine reads a line whose checksum has been checked, without its line feed.
func decodeLine(line []byte) (Entry, error) {
	if e, ok := decodeQuick(line); ok {
		return e, nil
	}
	var e Entry
	err := json.Unmarshal(line, &e)
	return e, err
}

// decodeQuick reads a line in the form that appendLine gives it, which is a tenth of the work of
// encoding/json. Any other form is not ok.
func decodeQuick(line []byte) (e Entry, ok bool) {
	c := cursor{rest: jobs.SealedMembers(line)}
	if c.rest == nil || !c.has(`{"time":`) {
		return e, false
	}
	e.Time = c.time()
	if c.has(`,"item_id":`) {
		e.ItemID = c.text()
	}
	if c.has(`,"phase":`) {
		e.Phase = c.text()
	}
	if c.has(`,"attempt":`) {
		e.Attempt = int(c.number())
	}
	if c.has(`,"step":`) {
		e.Step = c.text()
	}
	if c.has(`,"try":`) {
		e.Try = int(c.number())
	}
	if c.has(`,"command":`) {
		e.Command = int(c.number())
	}
	if c.has(`,"agent":`) {
		e.Agent = c.text()
	}
	e.First = c.has(`,"first":true`)
	if c.has(`,"missing":`) {
		e.Missing = c.number()
	}
	if c.has(`,"offset":`) {
		e.Offset = c.number()
	}
	if c.has(`,"printed":[`) {
		e.Printed = c.parts()
	}
	if c.has(`,"end":{`) {
		e.End = &End{Failed: c.has(`"failed":true,`), Stopped: c.has(`"stopped":true,`)}
		c.must(`"exit_code":`)
		e.End.ExitCode = int(c.number())
		c.must(`}`)
	}
	if c.has(`,"limit":`) {
		e.Limit = Keep(c.text())
	}
	return e, !c.failed && len(c.rest) == 0
}

// cursor reads a line from left to right. After the first thing that it does not expect it has failed.
type cursor struct {
	rest   []byte
	failed bool
}

func (c *cursor) has(text string) bool {
	if len(c.rest) < len(text) || string(c.rest[:len(text)]) != text {
		return false
	}
	c.rest = c.rest[len(text):]
	return true
}

func (c *cursor) must(text string) {
	if !c.has(text) {
		c.failed = true
	}
}

// number reads a number that has no more digits than it needs.
func (c *cursor) number() int64 {
	n := 0
	for n < len(c.rest) && (c.rest[n] == '-' || c.rest[n] >= '0' && c.rest[n] <= '9') {
		n++
	}
	v, err := strconv.ParseInt(string(c.rest[:n]), 10, 64)
	if err != nil || strconv.FormatInt(v, 10) != string(c.rest[:n]) {
		c.failed = true
		return 0
	}
	c.rest = c.rest[n:]
	return v
}

// raw returns a string of JSON with its quotes.
func (c *cursor) raw() []byte {
	if len(c.rest) == 0 || c.rest[0] != '"' {
		c.failed = true
		return nil
	}
	for n := 1; n < len(c.rest); n++ {
		at := bytes.IndexAny(c.rest[n:], `"\`)
		if at < 0 {
			break
		}
		if n += at; c.rest[n] == '"' {
			raw := c.rest[:n+1]
			c.rest = c.rest[n+1:]
			return raw
		}
		n++ // of an escape
	}
	c.failed = true
	return nil
}

func (c *cursor) bytes() []byte {
	raw := c.raw()
	if c.failed {
		return nil
	}
	text, err := jsontext.AppendUnquote(make([]byte, 0, len(raw)), raw)
	if err != nil {
		c.failed = true
	}
	return text
}

func (c *cursor) text() string { return string(c.bytes()) }

func (c *cursor) time() time.Time {
	raw := c.raw()
	if c.failed || len(raw) < 2 {
		return time.Time{}
	}
	var t time.Time
	if err := t.UnmarshalText(raw[1 : len(raw)-1]); err != nil {
		c.failed = true
	}
	return t
}

// parts reads the elements of an array and its end.
func (c *cursor) parts() []Part {
	var parts []Part
	for !c.failed {
		p := Part{Stream: Stdout}
		switch {
		case c.has(`{"stdout":`):
			p.Text = c.bytes()
		case c.has(`{"stderr":`):
			p.Stream, p.Text = Stderr, c.bytes()
		case c.has(`{"stdout_base64":`):
			p.Text = c.base64()
		case c.has(`{"stderr_base64":`):
			p.Stream, p.Text = Stderr, c.base64()
		default:
			c.failed = true
		}
		c.must(`}`)
		parts = append(parts, p)
		if c.has(`]`) {
			return parts
		}
		c.must(`,`)
	}
	return nil
}

func (c *cursor) base64() []byte {
	raw := c.raw()
	if c.failed {
		return nil
	}
	data, err := base64.StdEncoding.AppendDecode(nil, raw[1:len(raw)-1])
	if err != nil {
		c.failed = true
	}
	return data
}
