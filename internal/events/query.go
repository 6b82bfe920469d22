package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"prodigy/internal/check"
)

// Query selects records; a zero field selects all.
type Query struct {
	Type    string // in any case style: circuit_open, CircuitOpen, circuit-open
	ItemID  string
	AgentID string
	Since   time.Time
	Matches func(line []byte) bool // asked for what all else selects; nil means all
	Limit   int                    // the last n
}

// filter is a Query made ready for looking at many lines, by one goroutine: what can be ruled out by its
// bytes is not decoded.
type filter struct {
	query Query
	name  []byte // of the type, quoted
	item  []byte // as it stands in a line
	agent []byte // as it stands in a line
}

// newFilter makes a query ready. It returns an error if there are no events of its type.
func newFilter(q Query) (*filter, error) {
	f := &filter{query: q}
	if q.Type != "" {
		name, err := TypeNamed(q.Type)
		if err != nil {
			return nil, err
		}
		f.name = appendQuoted(nil, name)
	}
	if q.ItemID != "" {
		f.item = appendQuoted([]byte(`"item_id":`), q.ItemID)
	}
	if q.AgentID != "" {
		f.agent = appendQuoted([]byte(`"agent_id":`), q.AgentID)
	}
	return f, nil
}

// match reports whether the query selects the line.
func (f *filter) match(l line) (bool, error) {
	ok, err := f.selects(l)
	return ok && (f.query.Matches == nil || f.query.Matches(l.text)), err
}

// selects is match without Matches. What happens to an item has its id in the correlation.
func (f *filter) selects(l line) (bool, error) {
	if f.name != nil && !l.hasType(f.name) || !bytes.Contains(l.text, f.item) || !bytes.Contains(l.text, f.agent) {
		return false, nil
	}
	if !f.query.Since.IsZero() {
		h, err := decodeHead(l.text)
		if err != nil {
			return false, l.damaged(err)
		}
		if h.Time.Before(f.query.Since) {
			return false, nil
		}
	}
	if f.item == nil && f.agent == nil {
		return true, nil
	}
	var s subject
	if err := json.Unmarshal(l.text, &s); err != nil {
		return false, l.damaged(err)
	}
	return (f.item == nil || s.ItemID == f.query.ItemID) && (f.agent == nil || s.AgentID == f.query.AgentID), nil
}

// hasType reports whether the event is of the type with this name, in quotes. It looks at the first "type" of the line:
// the head is written before anything else, and in a text the quotes would be escaped, so it is the event's.
func (l line) hasType(name []byte) bool {
	i := bytes.Index(l.text, typeKey)
	return i >= 0 && bytes.HasPrefix(l.text[i+len(typeKey):], name)
}

var typeKey = []byte(`"type":`)

// TypeNamed returns the name of the event type that is meant by a word in any case style, such as
// circuit_open, or an error that says which one may have been meant.
func TypeNamed(word string) (string, error) {
	var names []string
	for _, e := range types {
		if check.Fold(TypeOf(e)) == check.Fold(word) {
			return TypeOf(e), nil
		}
		names = append(names, TypeOf(e))
	}
	near := check.Nearest(word, names)
	if near == "" {
		return "", fmt.Errorf("unknown event type %q", word)
	}
	return "", fmt.Errorf("unknown event type %q (did you mean %s?)", word, near)
}
