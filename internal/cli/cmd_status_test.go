package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"prodigy/internal/events"
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
	d := details{Attempts: timesOf(j)}
	if d.Attempts.Count != 2 || d.Attempts.Lost != 1 {
		t.Errorf("got %+v", d.Attempts)
	}
	var b bytes.Buffer
	d.print(term.Lines{W: &b}, j, time.Unix(9, 0))
	if want := "\nattempts: 2, 1 lost (worker gone) (p50 "; !strings.Contains(b.String(), want) {
		t.Errorf("%q is not in:\n%s", want, b.String())
	}
	b.Reset()
	finishedRun{job: j}.print(&console{out: io.Discard, err: &b})
	if want := "\nlost (worker gone): 1 attempt\n"; !strings.Contains(b.String(), want) {
		t.Errorf("%q is not in:\n%s", want, b.String())
	}
}
