package natsfleet

import (
	"math"
	"time"
)

// maxKept is how many bytes of reports a worker keeps that it has left with the broker. It says them again to a coordinator that comes back, or after the
// connection was lost: the broker may have lost its disk.
const maxKept = 4 << 20

// keep notes that the broker has the reports of an attempt that is held up to an index.
func (s *workerState) keep(h *heldAttempt, index int) {
	var taken []report
	for _, r := range h.reports {
		if r.index <= index {
			taken = append(taken, r)
		}
	}
	s.unload(h, index)
	h.kept = append(h.kept, taken...)
	s.kept += sizeOf(taken)
	for s.kept > maxKept {
		s.forgetKept(s.oldestKept())
	}
}

// oldestKept returns the attempt with the report that has been kept longest. Those of an attempt go together: without the first, nobody believes the others.
func (s *workerState) oldestKept() *heldAttempt {
	var oldest *heldAttempt
	for _, h := range s.held {
		if len(h.kept) > 0 && (oldest == nil || h.kept[0].made.Before(oldest.kept[0].made)) {
			oldest = h
		}
	}
	return oldest
}

func (s *workerState) forgetKept(h *heldAttempt) {
	s.kept -= sizeOf(h.kept)
	h.kept = nil
}

// resendKept has the kept reports of an attempt sent again, and left with the broker again if no coordinator takes them.
func (s *workerState) resendKept(h *heldAttempt) {
	if len(h.kept) == 0 {
		return
	}
	now := time.Now()
	for i := range h.kept {
		h.kept[i].made = now
	}
	h.job.unread += sizeOf(h.kept)
	again := h.kept
	s.forgetKept(h)
	h.reports, h.left = append(again, h.reports...), false
}

// acked notes that the coordinator has the reports of an attempt up to an index.
func (s *workerState) acked(h *heldAttempt, index int) {
	n := 0
	for n < len(h.kept) && h.kept[n].index <= index {
		n++
	}
	s.kept -= sizeOf(h.kept[:n])
	h.kept = h.kept[n:]
	s.unload(h, index)
}

// drop forgets an attempt, and what was reported of it.
func (s *workerState) drop(h *heldAttempt) {
	s.forgetKept(h)
	s.unload(h, math.MaxInt)
	delete(s.held, h.name())
}

func sizeOf(reports []report) (n int) {
	for _, r := range reports {
		n += len(r.data)
	}
	return n
}
