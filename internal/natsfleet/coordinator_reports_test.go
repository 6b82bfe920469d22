package natsfleet

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"prodigy/internal/agent"
	"prodigy/internal/fleet"
)

// storedReport is the message of a report that was left with the broker.
type storedReport struct {
	storedMsg
	again time.Duration // after which it is to come again; 0: it is not
}

func (m *storedReport) NakWithDelay(d time.Duration) error {
	m.again = d
	return nil
}

// A report that cannot be taken yet comes again soon: until then the broker says that all was delivered, and the attempt would be taken for lost.
func TestAStoredReportThatCannotBeTakenYetComesAgainSoon(t *testing.T) {
	report := func(index int) fleet.Report {
		return fleet.Report{
			V: fleet.Protocol, Token: 1, Index: index, Kind: fleet.Placed, Holder: fleet.Holder{Instance: "worker-1"},
		}
	}
	for name, change := range map[string]func(l *fleet.Ledger){
		"one before it is missing": func(*fleet.Ledger) {},
		"one before it is being passed on": func(l *fleet.Ledger) {
			l.Report(report(1), time.Now())
			l.Relayed(report(1))
			l.Report(report(2), time.Now())
		},
	} {
		c := quietCoordinator(fleet.JobOptions{Lease: time.Minute})
		c.turn(func(s *jobState) {
			s.flights[1] = newFlight(t.Context(), &agent.Attempt{Assignment: agent.Assignment{Token: 1}})
			s.ledger.Add(1)
			assign(t, s.ledger, "worker-1", 1, 1)
			change(s.ledger)
		})
		m := &storedReport{}
		c.report(report(3), m)
		if m.again != relayRetry {
			t.Errorf("%s: it comes again after %s, want %s", name, m.again, relayRetry)
		}
	}
}

// A stopped run does not wait for what workers do not end in time. What they report of it is for the run after it: a worker that is told that it is on disk
// forgets it, and another one would run the attempt again.
func TestWhatIsReportedOfADetachedAttemptIsForTheNextRun(t *testing.T) {
	c := quietCoordinator(fleet.JobOptions{})
	c.turn(func(s *jobState) { s.ledger.Leave(1) })
	r := fleet.Report{V: fleet.Protocol, Token: 1, Index: 1, Kind: fleet.Ended, Holder: fleet.Holder{Instance: "worker-1"}}
	m := &storedReport{}
	c.report(r)
	c.report(r, m)
	if _, said := c.state.ledger.Next(); said || m.again != relayRetry {
		t.Errorf("it is acknowledged, or comes again after %s, want %s", m.again, relayRetry)
	}
}

// Whoever reaches the broker can send what is told once of each worker, as often as they like and as much.
func TestWhatIsToldOnceIsBounded(t *testing.T) {
	told := 0
	c := quietCoordinator(fleet.JobOptions{})
	onNotice(c, func(string) { told++ })
	for i := range 3000 {
		u := fleet.WorkerMessage{V: fleet.Protocol + 1, WorkerStatus: fleet.WorkerStatus{Instance: strings.Repeat("x", 1000) + strconv.Itoa(i)}}
		for range 2 {
			c.receive(&nats.Msg{Data: encoded(u)})
		}
	}
	size := 0
	for key := range c.state.told {
		size += len(key)
	}
	if told != 3000 || len(c.state.told) > 1000 || size > 64<<10 {
		t.Errorf("told %d times, want 3000; %d keys of %d bytes are kept, want at most 1000 of 64 KiB", told, len(c.state.told), size)
	}
}
