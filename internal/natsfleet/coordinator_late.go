package natsfleet

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/fleet"
)

// lostAttempt is an attempt that was given up since its worker was silent. Its worker may come back and say how it has ended.
type lostAttempt struct {
	Token    int64  `json:"token"`
	ItemID   string `json:"item_id,omitempty"`
	Index    int    `json:"index,omitempty"` // of the item
	Number   int    `json:"number,omitempty"`
	Instance string `json:"instance,omitempty"` // that had it; empty: it is not known
	ID       string `json:"id,omitempty"`       // with credentials: of the worker that had it
	Known    bool   `json:"known,omitempty"`    // in the file: how it has ended is known

	recorded bool // its AgentLost is on disk
}

// attempt returns what events of the attempt name.
func (l *lostAttempt) attempt(job string) *agent.Attempt {
	a := &agent.Attempt{JobID: job, CorrelationID: job + "/" + l.ItemID, Phase: "map", ItemID: l.ItemID, ItemIndex: l.Index, Number: l.Number, Token: l.Token}
	a.ID = a.CorrelationID + "/" + strconv.Itoa(l.Number)
	return a
}

// isOf reports whether the attempt may be what a worker had.
func (l *lostAttempt) isOf(instance string) bool {
	return (l.Instance == "" || l.Instance == instance) && (l.ID == "" || l.ID == idOf(instance))
}

// mostLost is how many lost attempts a coordinator remembers. The end of an older one leaves no trace.
const mostLost = 4096

// noteLoss remembers an attempt that is given up. It is called with the lock held.
func (c *coordinator) noteLoss(l *lostAttempt) {
	c.lost[l.Token] = l
	c.lostOrder = append(c.lostOrder, l.Token)
	if len(c.lostOrder) <= mostLost {
		return
	}
	delete(c.lost, c.lostOrder[0])
	c.lostOrder = c.lostOrder[1:]
}

// isLate reports whether a report is the end of an attempt that was given up before, by the worker that had it. It is called with the lock held.
func (c *coordinator) isLate(r fleet.Report, instance string) bool {
	l := c.lost[r.Token]
	if l == nil || !l.isOf(instance) {
		return false
	}
	switch r.Kind {
	case fleet.Ended, fleet.Dropped, fleet.Returned, fleet.Broken:
		return true
	default:
		return false
	}
}

// late records the end of an attempt that was given up before, once. It is called with the lock held, and releases it.
func (c *coordinator) late(r fleet.Report, m jetstream.Msg) {
	l := c.lost[r.Token]
	if !l.recorded { // it would come before the AgentLost; the worker repeats it
		c.mu.Unlock()
		redeliver(m)
		return
	}
	delete(c.lost, r.Token)
	a := l.attempt(c.jobID)
	c.mu.Unlock()
	e := events.AgentEndedLate{
		ItemID: l.ItemID, ItemIndex: l.Index, AgentID: a.ID, Attempt: l.Number, Token: l.Token, Node: r.Holder.Node, Slot: r.Holder.Slot,
	}
	switch {
	case r.Kind == fleet.Dropped:
		e.Outcome = events.LateKilled
	case r.Kind != fleet.Ended:
		e.Outcome = events.LateReturned
	case r.Outcome == nil || r.Outcome.Failure != nil:
		e.Outcome = events.LateFailed
	default:
		e.Outcome = events.LateSucceeded
	}
	if r.Outcome != nil && r.Kind == fleet.Ended {
		e.DurationMS = events.Millis(r.Outcome.Duration)
	}
	c.addMembers(lostLine(lostAttempt{Token: l.Token, Known: true})) // before it: a resume must not record it again
	c.host.Emit(a, e)
	c.mu.Lock()
	c.ack(r, m)
}

// lossRecorded notes that the AgentLost of an attempt is on disk, also for the coordinator after this one.
func (c *coordinator) lossRecorded(token int64) {
	c.mu.Lock()
	l := c.lost[token]
	if l != nil {
		l.recorded = true
	}
	c.mu.Unlock()
	if l != nil {
		c.addMembers(lostLine(*l))
	}
}

// lostSign begins the lines of the file of the members that have lost attempts. They are not synced: without one, a late end leaves no trace.
const lostSign = "!"

func lostLine(l lostAttempt) string { return lostSign + string(encoded(l)) + "\n" }

// readLost takes a line of that file.
func (c *coordinator) readLost(line string) {
	l := &lostAttempt{recorded: true}
	switch text, _ := strings.CutPrefix(line, lostSign); {
	case json.Unmarshal([]byte(text), l) != nil:
	case l.Known:
		delete(c.lost, l.Token)
	default:
		c.noteLoss(l)
	}
}

// writeLost writes the lost attempts whose ends are not known, in order. It is called with the lock held.
func (c *coordinator) writeLost(text *strings.Builder) {
	for _, token := range c.lostOrder {
		if l := c.lost[token]; l != nil && l.recorded {
			text.WriteString(lostLine(*l))
		}
	}
}
