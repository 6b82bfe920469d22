package web

import (
	"fmt"
	"slices"
	"time"

	"prodigy/internal/events"
)

// busy draws how many slots were busy, and what held back starts. A second chart has how often agents started, of a job
// with rates or whose limits changed.
func (p *plot) busy() []chart {
	each := p.length / columns
	perSecond := func(column int) float64 { return float64(p.starts[column]) / max(each.Seconds(), 1e-6) }
	most, fastest := max(1, slices.Max(p.allowed.most[:])), max(0.1, slices.Max(p.rate.most[:]))
	for i := range columns {
		fastest = max(fastest, perSecond(i))
	}
	atOnce, starts := p.chart(90), p.chart(90)
	atOnce.Rects = p.background(atOnce.Height)
	run, start := atOnce.Height/most, starts.Height/fastest // the heights of one
	var slots, rates points
	for i := range columns {
		after := "after " + roughly(time.Duration(i)*each)
		if n := p.running.most[i]; n > 0 {
			atOnce.bar(i, 0, run*n, "ok", fmt.Sprintf("%s: %.0f of %.0f slots", after, n, p.allowed.most[i]))
		}
		rate := p.rate.most[i]
		if p.starts[i] > 0 {
			title := fmt.Sprintf("%s: %.3g starts per second", after, perSecond(i))
			if rate > 0 {
				title += fmt.Sprintf(", %.3g allowed", rate)
			}
			starts.bar(i, 0, start*perSecond(i), "ok", title)
		}
		slots.step(i, atOnce.Height-run*p.allowed.most[i])
		if rate > 0 {
			rates.add(xOf(i), starts.Height-start*rate)
		}
	}
	atOnce.curve("waits", slots)
	starts.curve("waits", rates)
	for _, r := range p.changes {
		at := p.axis.at(r.Time)
		atOnce.Rects = append(atOnce.Rects, rect{
			X: p.x(at), W: 3, H: atOnce.Height, Class: "change",
			Title: "after " + roughly(at) + ": " + events.Say(r).Clause(),
		})
	}
	atOnce.Name = fmt.Sprintf("Busy slots and their limit over time (max %.0f)", most)
	starts.Name = fmt.Sprintf("Starts per second over time (max %.3g)", fastest)
	atOnce.reaches(most)
	starts.reaches(fastest)
	if len(p.changes) == 0 && len(p.rates) == 0 {
		return []chart{atOnce}
	}
	return []chart{atOnce, starts}
}
