package natsfleet

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

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
	for name, change := range map[string]func(c *coordinator, f *flight){
		"one before it is missing":             func(_ *coordinator, f *flight) { f.last = 1 },
		"one before it is being passed on":     func(_ *coordinator, f *flight) { f.last, f.relays = 1, true },
		"the attempt was given to another one": func(c *coordinator, _ *flight) { c.given[1] = "another" },
	} {
		c := &coordinator{flights: map[int64]*flight{}, given: map[int64]string{}, dispatcher: fleet.NewDispatcher(time.Minute, time.Second, time.Now())}
		f := &flight{spec: &sharedSpec{}, token: 1, of: t.Context()}
		c.flights[1] = f
		c.dispatcher.Adopt(1, "")
		change(c, f)
		m := &storedReport{}
		c.report(fleet.Report{V: fleet.Protocol, Token: 1, Index: 3, Kind: fleet.Placed}, "worker-1", m)
		if m.again != relayRetry {
			t.Errorf("%s: it comes again after %s, want %s", name, m.again, relayRetry)
		}
	}
}

// A stopped run does not wait for what workers do not end in time. What they report of it is for the run after it: a worker that is told that it is on disk
// forgets it, and another one would run the attempt again.
func TestWhatIsReportedOfADetachedAttemptIsForTheNextRun(t *testing.T) {
	c := &coordinator{flights: map[int64]*flight{}, outboxes: map[string]*outbox{}, pendingByToken: map[int64]*pendingAck{}}
	c.mu.Lock()
	c.detach(1)
	c.mu.Unlock()
	r := fleet.Report{V: fleet.Protocol, Token: 1, Index: 1, Kind: fleet.Ended, Holder: fleet.Holder{Instance: "worker-1"}}
	m := &storedReport{}
	for _, m := range []jetstream.Msg{nil, m} {
		c.report(r, "worker-1", m)
	}
	if len(c.outboxes) != 0 || m.again != relayRetry {
		t.Errorf("it is acknowledged, or comes again after %s, want %s", m.again, relayRetry)
	}
}

// Whoever reaches the broker can send what is told once of each worker, as often as they like and as much.
func TestWhatIsToldOnceIsBounded(t *testing.T) {
	told := 0
	c := &coordinator{refused: map[string]bool{}, notice: func(string) { told++ }}
	for i := range 3000 {
		u := fleet.WorkerMessage{V: fleet.Protocol + 1, WorkerStatus: fleet.WorkerStatus{Instance: strings.Repeat("x", 1000) + strconv.Itoa(i)}}
		for range 2 {
			c.receive(&nats.Msg{Data: encoded(u)})
		}
	}
	size := 0
	for key := range c.refused {
		size += len(key)
	}
	if told != 3000 || len(c.refused) > 1000 || size > 64<<10 {
		t.Errorf("told %d times, want 3000; %d keys of %d bytes are kept, want at most 1000 of 64 KiB", told, len(c.refused), size)
	}
}
