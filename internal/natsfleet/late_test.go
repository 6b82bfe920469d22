package natsfleet

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/fleet"
)

// lateHost is a job that keeps what it is told of late ends.
type lateHost struct {
	deafHost
	mu   sync.Mutex
	late []string
}

func (h *lateHost) Emit(a *agent.Attempt, e events.Event) {
	if l, ok := e.(events.AgentEndedLate); ok {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.late = append(h.late, fmt.Sprintf("%s %d on %s: %s", l.AgentID, l.Token, l.Node, l.Outcome))
	}
}

func (h *lateHost) heard() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.late)
}

// losing returns a coordinator with attempts whose tokens are 1 to n, all with worker a.
func losing(t *testing.T, n int) (c *coordinator, h *lateHost) {
	t.Helper()
	f := newField(t)
	f.deaf("a")
	c, h = f.coordinator(), &lateHost{}
	c.Executor(agent.Config{Seed: 1}, h)
	for i := range n {
		if err := c.submit(t.Context(), attemptAt(f, i+1, "true"), func(*agent.Attempt, agent.Outcome, error) {}); err != nil {
			t.Fatal(err)
		}
	}
	f.hear(c, fleet.WorkerStatus{Instance: "a", Node: "a", Round: 1, Credit: int64(n), Slots: n})
	return c, h
}

// giveUp gives an attempt up, and has that be on disk.
func giveUp(c *coordinator, token int64, durable bool) {
	c.turn(func(s *jobState) {
		c.endFlight(s, fleet.Ending{Token: token}, flightEnd{err: &agent.LostError{Reason: "silence"}})
	})
	if durable {
		c.Persisted([]events.Record{{Event: events.AgentLost{AttemptID: events.AttemptID{AgentID: fmt.Sprintf("job/item_%d/1", token)}}}})
	}
}

func endOf(instance string, token int64, k fleet.ReportKind, o *agent.Outcome) fleet.Report {
	return fleet.Report{V: fleet.Protocol, Token: token, Index: 3, Kind: k, Holder: fleet.Holder{Instance: instance, Node: "a", Slot: 1}, Outcome: o}
}

// How an attempt ends that was given up is told once. The end of one that has ended in time is not late, however often it is repeated.
func TestTheEndOfAnAttemptThatWasGivenUpIsToldOnce(t *testing.T) {
	c, h := losing(t, 6)
	for token := range int64(4) {
		giveUp(c, token+1, true)
	}
	for range 3 {
		c.report(endOf("a", 1, fleet.Ended, &agent.Outcome{}))
		c.report(endOf("a", 2, fleet.Ended, &agent.Outcome{Failure: &agent.Failure{}}))
		c.report(endOf("a", 3, fleet.Placed, nil))
		c.report(endOf("b", 3, fleet.Dropped, nil))
		c.report(endOf("a", 3, fleet.Dropped, nil))
		c.report(endOf("a", 4, fleet.Returned, nil))
		r := endOf("a", 5, fleet.Ended, &agent.Outcome{})
		r.Index = 1
		c.report(r)
		c.Persisted([]events.Record{{Event: events.AgentCompleted{AttemptID: events.AttemptID{AgentID: "job/item_5/1"}}}})
	}
	want := []string{"job/item_1/1 1 on a: succeeded", "job/item_2/1 2 on a: failed", "job/item_3/1 3 on a: killed", "job/item_4/1 4 on a: returned"}
	if got := h.heard(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	// What the worker itself has given up is no loss that something could come after.
	c.report(endOf("a", 6, fleet.Dropped, nil))
	c.Persisted([]events.Record{{Event: events.AgentLost{AttemptID: events.AttemptID{AgentID: "job/item_6/1"}}}})
	c.report(endOf("a", 6, fleet.Dropped, nil))
	if got := h.heard(); len(got) != len(want) {
		t.Errorf("got %q", got)
	}
}

// A late end is not recorded before the loss is.
func TestALateEndWaitsForTheRecordOfTheLoss(t *testing.T) {
	c, h := losing(t, 1)
	giveUp(c, 1, false)
	c.report(endOf("a", 1, fleet.Ended, &agent.Outcome{}))
	if got := h.heard(); len(got) != 0 {
		t.Errorf("got %q before the loss was recorded", got)
	}
	c.Persisted([]events.Record{{Event: events.AgentLost{AttemptID: events.AttemptID{AgentID: "job/item_1/1"}}}})
	c.report(endOf("a", 1, fleet.Ended, &agent.Outcome{})) // the worker repeats it
	if got := h.heard(); len(got) != 1 {
		t.Errorf("got %q, want it once", got)
	}
}
