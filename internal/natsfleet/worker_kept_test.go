package natsfleet

import (
	"testing"
	"time"

	"prodigy/internal/fleet"
)

// A job may go away while the reports of an attempt are being left with the broker. Those are not kept then.
func TestAJobGoesAwayWhileItsReportsAreLeft(t *testing.T) {
	f := newField(t)
	w := newTestWorker(t)
	w.brokerConn = f.coordinator().brokerConn
	w.node.Instance = w.instance()
	j := newTestJob(w, "j", time.Minute)
	h, _ := w.hold(j, 1)
	h.ended, h.spilling = true, true
	for i := range 2 * maxKept / maxBody {
		h.reports = append(h.reports, report{data: make([]byte, maxBody), index: i + 1, made: time.Now()})
	}
	forget(w, "j")
	w.spillReports(h)
	if w.state.kept != 0 || h.left || h.spilling {
		t.Errorf("%d bytes are kept; it is with the broker: %v, on the way there: %v; want nothing of it", w.state.kept, h.left, h.spilling)
	}
}

// What was reported of attempts that the coordinator has given up does not count as unread: what others print would wait for ever.
func TestReportsOfADroppedAttemptAreNotUnread(t *testing.T) {
	w := newTestWorker(t)
	j := newTestJob(w, "j", time.Minute)
	for token := range int64(2) {
		h, _ := w.hold(j, token)
		w.report(h, fleet.Report{Kind: fleet.Printed, Reason: "it was printed"})
		j.outbox, h.sent = []*heldAttempt{h}, 1
		w.turn(func(s *workerState) { s.giveUp(j, token) })
		w.finish(h, fleet.Report{Kind: fleet.Returned})
		w.report(h, fleet.Report{Kind: fleet.Placed}) // of something that has come too late
		if len(w.state.held) != 0 || j.unread != 0 || h.sent != len(h.reports) {
			t.Errorf("%d attempts are held, %d bytes count as unread, %d of %d reports were sent", len(w.state.held), j.unread, h.sent, len(h.reports))
		}
	}
}
