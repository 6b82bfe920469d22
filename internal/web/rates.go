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
// whose limits changed or whose starts had turns.
func (p *plot) busy() []chart {
	l := &p.limits
	p.goTo(columns - 1)
	each := p.length / columns
	atOnce, starts := p.chart(90), p.chart(90)
	most, fastest := 1, 0.1
	perSecond := func(c limitColumn) float64 { return float64(c.starts) / max(each.Seconds(), 1e-6) }
	for _, c := range l.cols {
		most, fastest = max(most, c.running, c.slots), max(fastest, perSecond(c), c.rate)
	}
	atOnce.Rects = p.background(atOnce.Height)
	run, start := atOnce.Height/float64(most), starts.Height/fastest // the heights of one
	var slots, rates points
	for i, c := range l.cols {
		after := "after " + roughly(time.Duration(i)*each)
		if c.running > 0 {
			atOnce.bar(i, 0, run*float64(c.running), "ok",
				fmt.Sprintf("%s: %d of %d at once", after, c.running, c.slots))
		}
		if c.starts > 0 {
			title := fmt.Sprintf("%s: %.3g starts in a second", after, perSecond(c))
			if c.rate > 0 {
				title += fmt.Sprintf(", %.3g allowed", c.rate)
			}
			starts.bar(i, 0, start*perSecond(c), "ok", title)
		}
		slots.add(xOf(i), atOnce.Height-run*float64(c.slots))
		slots.add(xOf(i+1), atOnce.Height-run*float64(c.slots))
		if c.rate > 0 {
			rates.add(xOf(i), starts.Height-start*c.rate)
		}
	}
	atOnce.curve("waits", slots)
	starts.curve("waits", rates)
	for _, c := range l.changes {
		atOnce.Rects = append(atOnce.Rects, rect{
			X: p.x(c.at), W: 3, H: atOnce.Height, Class: "change", Title: "after " + roughly(c.at) + ": " + c.text,
		})
	}
	atOnce.Name = fmt.Sprintf("Busy slots and their limit over time (max %d)", most)
	starts.Name = fmt.Sprintf("Starts per second over time (max %.3g)", fastest)
	atOnce.reaches(float64(most))
	starts.reaches(fastest)
	if len(l.changes) == 0 && !l.turns {
		return []chart{atOnce}
	}
	return []chart{atOnce, starts}
}

// breakersDrawn bounds the breakers that have a row of their own.
const breakersDrawn = 40

// breakers draws when breakers were not closed, each in a row: those that were so the longest. It returns nil
// if only breakers without keys were, which the chart of the slots shows.
func (p *plot) breakers(periods []view.Period) (c *chart, more int) {
	type id struct{ scope, key string }
	long := map[id]time.Duration{}
	keyed := false
	for _, b := range periods {
		keyed = keyed || b.Key != ""
		lasted, _ := p.period(b.From, b.To, 0, "")
		long[id{b.Scope, b.Key}] += lasted
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
	for _, b := range periods {
		if y, drawn := at[id{b.Scope, b.Key}]; drawn {
			r := p.open(b, row-2)
			r.Y = y
			c.Rects = append(c.Rects, r)
		}
	}
	return c, more
}
