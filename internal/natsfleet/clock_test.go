package natsfleet

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"prodigy/internal/agent"
	"prodigy/internal/ai"
	"prodigy/internal/events"
	"prodigy/internal/fleet"
	"prodigy/internal/outputs"
	"prodigy/internal/retry"
)

// clockHost is a job that keeps the times that it is told, by what they are.
type clockHost struct {
	deafHost
	mu    sync.Mutex
	times map[string]time.Time
}

func (h *clockHost) note(what string, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.times[what] = at
}

func (h *clockHost) Emit(_ *agent.Attempt, e events.Event) {
	if k, ok := e.(events.StepRetrying); ok {
		h.note("budget", *k.BudgetExpiresAt)
	}
}

func (h *clockHost) Output(_ *agent.Attempt, e outputs.Entry) { h.note("output", e.Time) }

func (h *clockHost) ReportAgent(_ *agent.Attempt, _ agent.AgentTicket, f *agent.Failure, use ai.LimitUse) (bool, error) {
	h.note("quota", f.ResetAt)
	h.note("use", use.Reset)
	return false, nil
}

// What a worker says is to come in an hour comes in an hour, though its clock is wrong by hours.
func TestTimesOfAWorkerAreMovedToTheClockOfTheCoordinator(t *testing.T) {
	f := newField(t)
	c, h := f.coordinator(), &clockHost{times: map[string]time.Time{}}
	c.Executor(agent.Config{Seed: 1}, h)
	if err := c.open(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	for i, wrong := range []time.Duration{-7 * time.Hour, 0, 7 * time.Hour} {
		its := time.Now().Add(wrong)
		at := its.Add(time.Hour)
		instance := "A-" + string(rune('0'+i))
		f.deaf(instance)
		a := attemptAt(f, i+1, "true")
		done := func(_ *agent.Attempt, o agent.Outcome, _ error) {
			if o.Failure != nil { // not what is given up when the test is over
				h.note("outcome", o.Failure.ResetAt)
			}
		}
		if err := c.submit(t.Context(), a, done); err != nil {
			t.Fatal(err)
		}
		f.hear(c, fleet.WorkerStatus{Instance: instance, Node: "a", Round: 1, Credit: 1, Slots: 1})
		failure := &agent.Failure{Failure: retry.Failure{ResetAt: at}}
		line, err := events.Encode(events.Record{Seq: 1, Time: its, JobID: "job", Event: events.StepRetrying{ItemID: a.ItemID, BudgetExpiresAt: &at}})
		if err != nil {
			t.Fatal(err)
		}
		list := []fleet.Report{
			{Kind: fleet.Event, Event: line},
			{Kind: fleet.Printed, Entry: &outputs.Entry{Time: at}},
			{Kind: fleet.Ended, Outcome: &agent.Outcome{Failure: failure}},
		}
		for n := range list {
			list[n].V, list[n].Token, list[n].Index, list[n].Holder = fleet.Protocol, a.Token, n+1, fleet.Holder{Instance: instance, Node: "a", Slot: 1}
		}
		say := func(reports ...fleet.Report) {
			u := fleet.WorkerMessage{V: fleet.Protocol, Owner: c.owner, Now: its, WorkerStatus: fleet.WorkerStatus{Instance: instance, Node: "a", Round: 1, Slots: 1}, Reports: reports}
			c.receive(&nats.Msg{Subject: upSubject(instance, c.key), Data: encoded(u)})
		}
		say(list[:2]...)
		c.keep(instance, callArgs{Agent: agent.AgentTicket{ID: 5, Owner: c.owner}}, func() {})
		q := fleet.Call{ID: instance, Method: callReportAgent, Token: a.Token, From: instance, Args: encoded(callArgs{
			Agent: agent.AgentTicket{ID: 5, Owner: c.owner}, Failure: failure, Use: ai.LimitUse{Reset: at},
		})}
		if _, err := c.invoke(q); err != nil {
			t.Fatal(err)
		}
		say(list[2])
		h.mu.Lock()
		if got := slices.Sorted(maps.Keys(h.times)); !slices.Equal(got, []string{"budget", "outcome", "output", "quota", "use"}) {
			t.Errorf("told of %q", got)
		}
		for what, at := range h.times {
			if left := time.Until(at).Round(time.Minute); left != time.Hour {
				t.Errorf("the clock is wrong by %s: %s is in %s, want 1h", wrong, what, left)
			}
		}
		clear(h.times)
		h.mu.Unlock()
	}
}

// Of a worker that has ended nothing is known but what it has left with the broker.
func TestTimesInWhatWasLeftWithTheBrokerAreMovedToo(t *testing.T) {
	f := newField(t)
	c := f.coordinator()
	for _, wrong := range []time.Duration{-7 * time.Hour, 0, 7 * time.Hour} {
		m := storedMsg{header: nats.Header{nowHeader: {time.Now().Add(wrong).Format(time.RFC3339Nano)}}}
		if got := c.offset("gone", m).Round(time.Minute); got != -wrong {
			t.Errorf("the clock is wrong by %s: the times are moved by %s", wrong, got)
		}
		c.turn(func(s *jobState) { s.workers.of("there").heard = time.Now() })
		if got := c.offset("there", m); got != 0 {
			t.Errorf("of a worker whose clock is right they are moved by %s", got)
		}
	}
}

// storedMsg is a message of the stream.
type storedMsg struct {
	jetstream.Msg
	header nats.Header
}

func (m storedMsg) Headers() nats.Header { return m.header }
