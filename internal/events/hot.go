package events

import "bytes"

// The names of the types that decodeHot reads.
const (
	started   = "AgentStarted"
	completed = "AgentCompleted"
)

// decodeHot reads the two events that a log has most of, in the form that Encode gives them: a replay of a large job reads
// little else, and encoding/json takes ten times as long. What it does not expect, such as escapes, captured values or a
// field that came later, is not ok and left to decodeEvent, which gives the same event for all that is.
func (h heading) decodeHot() (Event, bool) {
	c := cursor{rest: h.rest, ok: true, ids: h.ids}
	switch h.name {
	case started:
		return c.agentStarted()
	case completed:
		return c.agentCompleted()
	}
	return nil, false
}

func (c *cursor) agentStarted() (Event, bool) {
	var e AgentStarted
	e.ItemID = c.textOf(`,"item_id":`)
	e.ItemIndex = c.numberOf(`,"item_index":`)
	e.AgentID = c.textOf(`,"agent_id":`)
	e.Attempt = c.numberOf(`,"attempt":`)
	e.Worker = c.numberOf(`,"worker":`)
	return e, c.end()
}

func (c *cursor) agentCompleted() (Event, bool) {
	var e AgentCompleted
	e.ItemID = c.textOf(`,"item_id":`)
	e.ItemIndex = c.numberOf(`,"item_index":`)
	e.AgentID = c.textOf(`,"agent_id":`)
	e.Attempt = c.numberOf(`,"attempt":`)
	e.Worker = c.numberOf(`,"worker":`)
	c.outcome(&e)
	return e, c.end()
}

// outcome reads what an AgentCompleted has more than an AgentStarted.
func (c *cursor) outcome(e *AgentCompleted) {
	c.skip(`,"duration_ms":`)
	e.DurationMS = c.millis()
	e.ExitCode = c.numberOf(`,"exit_code":`)
	if c.has(`,"output":`) {
		e.Output = c.textOf(`,"output":`)
	}
	if c.has(`,"output_file":`) {
		e.OutputFile = c.textOf(`,"output_file":`)
	}
	if c.has(`,"output_crc":`) {
		e.OutputCRC = c.textOf(`,"output_crc":`)
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

// ids is a text that the ids of a line are parts of, so that they share its memory: the agent's, or else the correlation.
type ids struct {
	text        string
	correlation int // how much of it that is
}

// find returns the part of the text that raw is, from its beginning or to the end of the correlation.
func (i ids) find(raw []byte) (string, bool) {
	if len(raw) <= len(i.text) && i.text[:len(raw)] == string(raw) {
		return i.text[:len(raw)], true
	}
	if at := i.correlation - len(raw); at >= 0 && i.text[at:i.correlation] == string(raw) {
		return i.text[at:i.correlation], true
	}
	return "", false
}

// correlation reads the correlation id, and looks ahead for an agent id that begins with it.
func (c *cursor) correlation() string {
	raw := c.raw()
	whole := raw
	if agent, ok := c.agentAhead(); ok && bytes.HasPrefix(agent, raw) {
		whole = agent
	}
	c.ok = c.ok && plain(whole)
	c.ids = ids{text: string(whole), correlation: len(raw)}
	return c.ids.text[:len(raw)]
}

// agentAhead returns the agent id of an event that has one where decodeHot expects it, behind the correlation, and stays where it is.
func (c *cursor) agentAhead() ([]byte, bool) {
	ahead := *c
	ahead.skip(`,"type":`)
	ahead.raw()
	ahead.skip(`,"item_id":`)
	ahead.raw()
	ahead.skip(`,"item_index":`)
	ahead.number()
	ahead.skip(`,"agent_id":`)
	agent := ahead.raw()
	return agent, ahead.ok
}

func (c *cursor) textOf(key string) string {
	c.skip(key)
	return c.text()
}

func (c *cursor) numberOf(key string) int {
	c.skip(key)
	return int(c.number())
}

// end reports whether no field is left.
func (c *cursor) end() bool { return c.ok && len(c.rest) == 0 }
