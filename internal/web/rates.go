package web

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/view"
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
			atOnce.bar(i, 0, run*n, "ok", fmt.Sprintf("%s: %.0f of %.0f at once", after, n, p.allowed.most[i]))
		}
		rate := p.rate.most[i]
		if p.starts[i] > 0 {
			title := fmt.Sprintf("%s: %.3g starts in a second", after, perSecond(i))
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

// breakersDrawn bounds the breakers that have a row of their own.
const breakersDrawn = 40

// breakers draws when breakers were not closed, each in a row: those that were so the longest. It returns nil
// if only breakers without keys were, which the chart of the slots shows.
func (p *plot) breakers() (c *chart, more int) {
	type id struct{ scope, key string }
	idOf := func(b view.Period) id {
		scope, t, _ := events.Transition(b.Event)
		return id{scope, t.Key}
	}
	long := map[id]time.Duration{}
	keyed := false
	for _, b := range p.job.BreakerPeriods() {
		one := idOf(b)
		keyed = keyed || one.key != ""
		lasted, _ := p.breaker(b)
		long[one] += lasted
	}
	if !keyed {
		return nil, 0
	}
	var rows []id
	for one := range long {
		rows = append(rows, one)
	}
	slices.SortFunc(rows, func(a, b id) int {
		return cmp.Or(cmp.Compare(long[b], long[a]), cmp.Compare(a.scope, b.scope), cmp.Compare(a.key, b.key))
	})
	more = max(len(rows)-breakersDrawn, 0)
	rows = rows[:len(rows)-more]
	const row = 20.0
	drawn := p.chart(row * float64(len(rows)))
	c, at := &drawn, map[id]float64{}
	c.Name = fmt.Sprintf("Open circuit breakers over time (%d)", len(rows))
	for i, one := range rows {
		y := row * float64(i)
		at[one] = y
		name := one.key
		if one.scope != events.WorkflowScope {
			name = one.scope + " " + name
		}
		c.Labels = append(c.Labels, label{
			X: 4, Y: y + row - 6,
			Text: name + ", " + exactly(long[one]),
		})
	}
	for _, b := range p.job.BreakerPeriods() {
		if y, drawn := at[idOf(b)]; drawn {
			_, r := p.breaker(b)
			r.Y, r.H = y, row-2
			c.Rects = append(c.Rects, r)
		}
	}
	return c, more
}
