package web

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/view"
)

// limits are how many agents ran at once and how often they started, and what limited both.
type limits struct {
	cols    [columns]limitColumn
	filled  int // the column of the last record
	running int
	slots   int // how many agents may run at once; 0 while those of a fleet are not known

	// Starts in a second that are allowed, whatever their keys are; 0 if there is no limit, or the log does not
	// have it.
	rate float64

	adapts  float64  // that of the adaptive limit
	fixed   float64  // that of the workflow
	rates   []string // of the workflow, also those that are drawn nowhere
	changes []change
	more    int  // changes that are not drawn
	turns   bool // starts have turns
	adapted bool // the number of slots is found out
}

// limitColumn is one of the equal parts of the axis.
type limitColumn struct {
	running, slots, starts int // running, and slots: the most of them
	rate                   float64
}

// change is a change of a limit, and why.
type change struct {
	at   time.Duration
	text string
}

// ratesKept bounds the rates of the workflows of a job that are written out.
const ratesKept = 20

// changesKept bounds the changes that are drawn.
const changesKept = 200

// limited takes a record, which may begin a run, before the rest of the plot does.
func (p *plot) limited(r events.Record, now time.Duration, begins bool) {
	l := &p.limits
	if begins {
		l.running, l.slots = p.job.AtWork(), cmp.Or(l.slots, p.job.MaxParallel)
		for _, s := range p.runs {
			s.awaits = false // that of those is found out again
		}
		l.fix(p.job.Rates)
	}
	switch e := r.Event.(type) {
	case events.ScaleRequested:
		l.slots = e.MaxParallel
		l.change(now, r)
	case events.ConcurrencyChanged:
		if !l.adapted {
			l.adapted = true
			for i := range l.filled + 1 { // until now only the most was known
				l.cols[i].slots = e.Before
			}
		}
		l.slots, l.adapts = e.Limit, e.Rate
		l.change(now, r)
	case events.StartsHeld, events.PauseRequested:
		l.change(now, r)
	case events.StepRetried:
		l.turns = true
		l.cols[l.filled].starts++
	case events.AgentStarted:
		l.turns = l.turns || e.Key != ""
		l.running++
		l.cols[l.filled].starts++
	case events.AgentPlaced:
		if s := p.runs[e.ItemIndex]; s != nil && s.awaits {
			s.awaits = false
			l.running++
		}
	}
	if end, ok := events.EndOf(r.Event); ok && end.Ran {
		l.ended(p.runs[end.Index])
	}
	c := &l.cols[l.filled]
	if l.rate = l.adapts; l.rate == 0 || l.fixed > 0 && l.fixed < l.rate {
		l.rate = l.fixed
	}
	if l.adapted {
		l.slots = max(l.slots, l.running) // the log does not have each small step of an adaptive limit
	}
	c.running, c.slots, c.rate = max(c.running, l.running), max(c.slots, p.allowed()), l.rate
}

// allowed returns how many attempts may run at once: as many as do until the slots of a fleet are known.
func (p *plot) allowed() int {
	if p.job.MaxParallel == 0 && !p.job.OnFleet {
		return p.limits.running
	}
	return p.limits.slots
}

// fix takes the rates that the workflow has from now on.
func (l *limits) fix(rates []events.StartRate) {
	l.fixed = 0
	for _, r := range rates {
		l.turns = true
		if r.Step == "" && r.Per == "" {
			l.fixed = r.PerSecond
		}
		if len(l.rates) < ratesKept && !slices.Contains(l.rates, r.Words()) {
			l.rates = append(l.rates, r.Words())
		}
	}
}

// ended notes that an attempt has ended, if it ran.
func (l *limits) ended(s *span) {
	if s != nil && !s.awaits && l.running > 0 {
		l.running--
	}
}

func (l *limits) change(at time.Duration, r events.Record) {
	if len(l.changes) == changesKept {
		l.more++
		return
	}
	l.changes = append(l.changes, change{at, events.Say(r).Clause()})
}

// goTo goes on to a column. In those between nothing has changed, but that attempts are found to wait for a
// worker of a fleet.
func (p *plot) goTo(to int) {
	l := &p.limits
	for l.filled < to {
		l.filled++
		begins := p.length * time.Duration(l.filled) / columns
		for _, s := range p.runs {
			if s.fleet && !s.awaits && s.lane.node == "" && begins-s.From > view.PlacedWithin {
				s.awaits = true
				l.running = max(l.running-1, 0)
			}
		}
		l.cols[l.filled] = limitColumn{running: l.running, slots: p.allowed(), rate: l.rate}
	}
}

// limitCharts draws how many agents ran and started, of a job whose limits changed or whose starts had turns.
// It returns nil for others.
func (p *plot) limitCharts() []chart {
	l := &p.limits
	p.goTo(columns - 1)
	if len(l.changes) == 0 && !l.turns {
		return nil
	}
	each := p.length / columns
	atOnce, starts := p.chart(90), p.chart(90)
	most, fastest := 1, 0.1
	perSecond := func(c limitColumn) float64 { return float64(c.starts) / max(each.Seconds(), 1e-6) }
	for _, c := range l.cols {
		most, fastest = max(most, c.running, c.slots), max(fastest, perSecond(c), c.rate)
	}
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
	atOnce.Name = fmt.Sprintf("Agents at once and their limit over time, at most %d", most)
	starts.Name = fmt.Sprintf("Starts in a second over time, at most %.3g", fastest)
	atOnce.reaches(float64(most))
	starts.reaches(fastest)
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
	c.Name = fmt.Sprintf("When %d circuit breakers were open over time", len(rows))
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
