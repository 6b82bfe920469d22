package view

import (
	"time"

	"prodigy/internal/events"
)

// Pause is a period in which agents of a pool waited for the limit of their plan.
type Pause struct {
	events.QuotaPaused
	From, To time.Time // To is when agents came through again; zero means not yet
}

// pauses are the pauses of a job.
type pauses struct {
	// The index in list of each pause that has not ended, by the name of its events.Hold.
	open map[string]int

	list []Pause
}

// begin begins a pause, and ends the one that the same agents were in.
func (p *pauses) begin(now time.Time, e events.QuotaPaused) {
	p.end(now, nameOf(e))
	if len(p.list) >= periodsKept {
		return
	}
	if p.open == nil {
		p.open = map[string]int{}
	}
	p.open[nameOf(e)] = len(p.list)
	p.list = append(p.list, Pause{QuotaPaused: e, From: now})
}

// nameOf returns the name of the hold that a pause is.
func nameOf(e events.QuotaPaused) string {
	h, _ := events.HoldOf(e)
	return h.Name
}

// end ends the pause of a hold, if there is one.
func (p *pauses) end(now time.Time, name string) {
	if i, ok := p.open[name]; ok {
		p.list[i].To = now
		delete(p.open, name)
	}
}
