package natsfleet

import (
	"math"
	"time"
)

// maxKept is how many bytes of reports a worker keeps that it has left with the broker. It says them again to a coordinator that comes back, or after the
// connection was lost: the broker may have lost its disk.
const maxKept = 4 << 20

// keep notes that the broker has the reports of an attempt that is held up to an index. It is called with the lock held.
func (w *worker) keep(h *heldAttempt, index int) {
	var taken []report
	for _, r := range h.reports {
		if r.index <= index {
			taken = append(taken, r)
		}
	}
	w.unload(h, index)
	h.kept = append(h.kept, taken...)
	w.kept += sizeOf(taken)
	for w.kept > maxKept {
		w.forgetKept(w.oldestKept())
	}
}

// oldestKept returns the attempt with the report that has been kept longest. Those of an attempt go together: without the first, nobody believes the others.
func (w *worker) oldestKept() *heldAttempt {
	var oldest *heldAttempt
	for _, h := range w.held {
		if len(h.kept) > 0 && (oldest == nil || h.kept[0].made.Before(oldest.kept[0].made)) {
			oldest = h
		}
	}
	return oldest
}

func (w *worker) forgetKept(h *heldAttempt) {
	w.kept -= sizeOf(h.kept)
	h.kept = nil
}

// resendKept has the kept reports of an attempt sent again, and left with the broker again if no coordinator takes them. It is called with the lock held.
func (w *worker) resendKept(h *heldAttempt) {
	if len(h.kept) == 0 {
		return
	}
	now := time.Now()
	for i := range h.kept {
		h.kept[i].made = now
	}
	h.job.unread += sizeOf(h.kept)
	again := h.kept
	w.forgetKept(h)
	h.reports, h.left = append(again, h.reports...), false
}

// acked notes that the coordinator has the reports of an attempt up to an index. It is called with the lock held.
func (w *worker) acked(h *heldAttempt, index int) {
	n := 0
	for n < len(h.kept) && h.kept[n].index <= index {
		n++
	}
	w.kept -= sizeOf(h.kept[:n])
	h.kept = h.kept[n:]
	w.unload(h, index)
}

// drop forgets an attempt, and what was reported of it. It is called with the lock held.
func (w *worker) drop(h *heldAttempt) {
	w.forgetKept(h)
	w.unload(h, math.MaxInt)
	delete(w.held, h.name())
}

func sizeOf(reports []report) (n int) {
	for _, r := range reports {
		n += len(r.data)
	}
	return n
}
