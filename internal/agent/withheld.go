package agent

import (
	"sync"

	"prodigy/internal/events"
)

// withheld is what steps printed that held secrets, and so is not in the log. It lives as long as its Executor: later phases of the
// same run see it, a resume does not.
type withheld struct {
	mu   sync.Mutex
	real map[withheldKey]printed
}

type withheldKey struct {
	phase string
	step  int
}

func (w *withheld) put(e events.StepCompleted, p printed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.real == nil {
		w.real = make(map[withheldKey]printed)
	}
	w.real[withheldKey{e.Phase, e.StepIndex}] = p
}

func (w *withheld) get(e events.StepCompleted) (printed, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, ok := w.real[withheldKey{e.Phase, e.StepIndex}]
	return p, ok
}
