package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/term"
	"prodigy/internal/view"
)

// Attempts that were lost with their workers are among all that were begun, and the closing summary names them.
func TestLostAttemptsAreCounted(t *testing.T) {
	j := view.New()
	for i, e := range []events.Event{
		events.JobStarted{Mode: "mapreduce"},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "a", Attempt: 1}, Worker: 1, Fleet: true},
		events.AgentLost{AttemptID: events.AttemptID{ItemID: "a", Attempt: 1}, Place: events.Place{Node: "w1"}},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "a", Attempt: 2}, Worker: 1, Fleet: true},
		events.AgentCompleted{AttemptID: events.AttemptID{ItemID: "a", Attempt: 2}, Place: events.Place{
			Node: "w2",
			Slot: 1,
		}},
	} {
		j.Apply(events.Record{Seq: int64(i + 1), Time: time.Unix(int64(i), 0), Event: e})
	}
	d := detailsOf(job.Summary{}, j, nil, func(int) string { return "" })
	if d.Attempts.Count != 2 || d.Attempts.Lost != 1 {
		t.Errorf("got %+v", d.Attempts)
	}
	var b bytes.Buffer
	d.print(term.Lines{W: &b}, time.Unix(9, 0))
	if want := "\nattempts: 2, 1 lost (worker gone) (p50 "; !strings.Contains(b.String(), want) {
		t.Errorf("%q is not in:\n%s", want, b.String())
	}
	b.Reset()
	finishedRun{job: j}.print(&console{out: io.Discard, err: &b})
	if want := "\nlost (worker gone): 1 attempt\n"; !strings.Contains(b.String(), want) {
		t.Errorf("%q is not in:\n%s", want, b.String())
	}
}

// Of many running items the status lists the longest, and says how many more there are.
func TestStatusSaysHowManyMoreItemsRun(t *testing.T) {
	j := view.New()
	for i, e := range []events.Event{
		events.JobStarted{Mode: "mapreduce"},
		events.PhaseStarted{Phase: "map"},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "a", ItemIndex: 0, Attempt: 1}},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "b", ItemIndex: 1, Attempt: 1}},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "c", ItemIndex: 2, Attempt: 1}},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "d", ItemIndex: 3, Attempt: 1}},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "e", ItemIndex: 4, Attempt: 1}},
	} {
		j.Apply(events.Record{Seq: int64(i + 1), Time: time.Unix(int64(i), 0), Event: e})
	}
	noLabel := func(int) string { return "" }
	d := detailsOf(job.Summary{State: jobs.Running}, j, nil, noLabel)
	var b bytes.Buffer
	d.print(term.Lines{W: &b}, time.Unix(60, 0))
	if want := "  running c  56s\n  and 2 more\n"; !strings.Contains(b.String(), want) {
		t.Errorf("%q is not in:\n%s", want, b.String())
	}
}

// An attempt that took no time is not listed as slow below one that was.
func TestOnlySlowAttemptsAreListedAsTheSlowest(t *testing.T) {
	list := []view.Attempt{{ItemID: "a", Duration: 3 * time.Second}, {ItemID: "b", Duration: time.Millisecond}}
	var b bytes.Buffer
	printSlowest(term.Lines{W: &b}, list, func(int) string { return "" })
	if got, want := b.String(), "slowest:     3s  a\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
