package agent

import (
	"context"
	"sync"
	"time"

	"prodigy/internal/ai"
	"prodigy/internal/limit"
)

// watch ends a run of an AI coding CLI that does not get on, or that has cost what it may. What the CLI prints is
// observed by one goroutine, while a timer waits. A nil watch does nothing.
type watch struct {
	limits  ai.Limits
	lenient bool // nothing is known of the command until it prints what the preset knows

	host   Host // asked whether the run has to end for what it costs, unless the CLI holds itself to its limit
	ticket AgentTicket
	cost   float64 // so far

	expiry context.Context
	expire context.CancelFunc

	mu    sync.Mutex
	dog   *ai.Watchdog // nil: the run has not begun, or is not watched yet
	timer *time.Timer
	why   *ai.Stall // nil: it was not ended
}

// lookEvery is how often a watch looks whether the run is due.
const lookEvery = 100 * time.Millisecond

// begin starts the clock, and returns the context that ends with the patience for the run.
func (w *watch) begin() context.Context {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.lenient {
		w.start()
	}
	return w.expiry
}

func (w *watch) start() {
	w.dog = ai.NewWatchdog(w.limits, time.Now())
	w.timer = time.AfterFunc(lookEvery, w.check)
}

// observe takes the signs of the run.
func (w *watch) observe(s ai.Signs) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dog == nil {
		if !s.Known {
			return
		}
		w.start()
	}
	if w.why == nil {
		w.end(w.dog.Observe(s, time.Now()))
	}
}

// check ends the run if it is due.
func (w *watch) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.expiry.Err() == nil {
		w.end(w.dog.Check(time.Now()))
		w.timer.Reset(lookEvery)
	}
}

// meter ends the run when it has cost what it may, as far as its output tells.
func (w *watch) meter(output *ai.Reading) {
	if w == nil || w.host == nil {
		return
	}
	dollars, known := output.Cost()
	if !known || dollars <= w.cost {
		return
	}
	w.cost = dollars
	cost := limit.FromFloat(dollars)
	if !w.host.AgentCost(w.ticket, cost) {
		return
	}
	message := "it cost " + cost.String() + ", and the job's budget is spent"
	if w.ticket.Cap > 0 && cost >= w.ticket.Cap {
		message = "it cost " + cost.String() + ", its maximum is " + w.ticket.Cap.String()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.why == nil {
		w.end(&ai.Stall{Rule: "max_cost", Outcome: ai.Budget, Message: message})
	}
}

// end ends the run, if there is a reason.
func (w *watch) end(why *ai.Stall) {
	if w.why = why; why != nil {
		w.expire()
	}
}

// stop ends the watch.
func (w *watch) stop() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
	w.expire()
}

// saw returns why the run was ended, or nil, and whether it has printed its end, and nothing after it.
func (w *watch) saw() (why *ai.Stall, ended bool) {
	if w == nil {
		return nil, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.why, w.dog != nil && w.dog.Ended()
}
