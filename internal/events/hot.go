package events

// The names of the types that decodeHot reads.
const (
	started   = "AgentStarted"
	completed = "AgentCompleted"
)

// decodeHot reads the two events that a log has most of, in the form that Encode gives them: a replay of a large job reads
// little else, and encoding/json takes ten times as long. What it does not expect, such as escapes, captured values or a
// field that came later, is not ok and left to decodeEvent, which gives the same event for all that is.
func decodeHot(name string, rest []byte, correlationID string) (Event, bool) {
	c := cursor{rest: rest, ok: true}
	if plain(correlationID) {
		c.seen = correlationID
	}
	switch name {
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
	c.skip(`,"duration_ms":`)
	e.DurationMS = c.millis()
	e.ExitCode = c.numberOf(`,"exit_code":`)
	if c.has(`,"output":`) {
		e.Output = c.textOf(`,"output":`)
	}
	if c.has(`,"output_file":`) {
		e.OutputFile = c.textOf(`,"output_file":`)
	}
	return e, c.end()
}

// typeName reads the name of a type; those that come often need no memory of their own.
func (c *cursor) typeName() string {
	c.seen = started
	if c.has(`"AgentC`) {
		c.seen = completed
	}
	return c.text()
}

func (c *cursor) textOf(key string) string {
	c.skip(key)
	return c.text()
}

func (c *cursor) numberOf(key string) int {
	c.skip(key)
	return int(c.number())
}

// end tells whether nothing but the end of the object is left.
func (c *cursor) end() bool { return c.ok && string(c.rest) == "}" }
