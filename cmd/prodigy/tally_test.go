package main

import (
	"testing"
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
)

func TestStatusLineCountsItemsOnce(t *testing.T) {
	began := time.Date(2026, 11, 20, 16, 0, 0, 0, time.UTC)
	y := newTally(errorpolicy.Metrics{})
	for _, e := range []events.Event{
		events.JobStarted{},
		events.PhaseStarted{Phase: "map"},
		events.ItemsSelected{TotalItems: 10},
		events.AgentStarted{ItemID: "a"},
		events.AgentCompleted{ItemID: "a"},
		events.AgentStarted{ItemID: "b"},
		events.AgentFailed{ItemID: "b", Action: errorpolicy.Retry},
		events.AgentStarted{ItemID: "c"},
		events.AgentFailed{ItemID: "c", Action: errorpolicy.DLQ},
		events.AgentStarted{ItemID: "d"},
		events.AgentFailed{ItemID: "d", Action: errorpolicy.Skip},
		events.AgentSkipped{ItemID: "d"},
		events.AgentStarted{ItemID: "e"},
		events.AgentInterrupted{ItemID: "e"},
		events.AgentStarted{ItemID: "f"},
		events.AgentStarted{ItemID: "g"},
		events.AgentFailed{ItemID: "h", Action: errorpolicy.DLQ, ErrorType: "circuit_open"},
	} {
		y.apply(events.Record{Time: began, Event: e})
	}
	got, want := y.line(began.Add(2*time.Second)), "4/10 done, 2 failed, 2 running, 1 waiting, 2.0/s, eta 3s"
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestStatusLineOfAResumeDoesNotCountWhatWasDoneBefore(t *testing.T) {
	began := time.Date(2026, 11, 20, 16, 0, 0, 0, time.UTC)
	y := newTally(errorpolicy.Metrics{Failed: 4, Rejected: 1, Skipped: 2})
	y.apply(events.Record{Time: began, Event: events.JobResumed{Completed: 90, Pending: 9, InFlight: 1}})
	y.apply(events.Record{Time: began, Event: events.AgentCompleted{ItemID: "a"}})
	got, want := y.line(began.Add(time.Second)), "91/100 done, 5 failed, 0 running, 0 waiting, 1.0/s, eta 9s"
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestStatusLineSaysThatMoreItemsMayCome(t *testing.T) {
	began := time.Date(2026, 11, 20, 16, 0, 0, 0, time.UTC)
	y := newTally(errorpolicy.Metrics{})
	for _, e := range []events.Event{
		events.PhaseStarted{Phase: "map"},
		events.AgentStarted{ItemID: "a"},
		events.AgentStarted{ItemID: "b"},
		events.AgentCompleted{ItemID: "a"},
	} {
		y.apply(events.Record{Time: began, Event: e})
	}
	got, want := y.line(began.Add(2*time.Minute)), "1 done, 0 failed, 1 running, 0 waiting, so far 2 found, 30.0/h"
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
