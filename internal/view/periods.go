package view

import (
	"time"

	"prodigy/internal/events"
)

// Period is a time in which something was held back, from the event that said so. To is zero while it lasts.
type Period struct {
	events.Record
	To time.Time
}

// periodsKept bounds the periods of a kind: a breaker may flap.
const periodsKept = 10_000

// Periods are those of one kind, in the order of their beginning. The zero Periods have none.
type Periods struct {
	List []Period

	// The index in List of each that has not ended, by the name of what holds back.
	open map[string]int
}

// begin begins a period, unless one of that name lasts.
func (p *Periods) begin(name string, r events.Record) {
	if _, lasts := p.open[name]; lasts || len(p.List) == periodsKept {
		return
	}
	if p.open == nil {
		p.open = map[string]int{}
	}
	p.open[name] = len(p.List)
	p.List = append(p.List, Period{Record: r})
}

// end ends the period of that name, if there is one.
func (p *Periods) end(name string, now time.Time) {
	if i, lasts := p.open[name]; lasts {
		p.List[i].To = now
		delete(p.open, name)
	}
}
