package web

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/term"
	"prodigy/internal/view"
)

// width of all charts, in the units of their drawings.
const width = 1000.0

// rect is a rectangle of a drawing.
type rect struct {
	X, Y, W, H float64
	Class      string
	Title      string
}

// tick is a mark on an axis.
type tick struct {
	At   float64
	Text string
}

// chart is a drawing, which the template renders as an SVG element.
type chart struct {
	Height float64
	Name   string // its accessible name
	Rects  []rect
	Lines  []line
	Labels []label
	Ticks  []tick    // on the axis
	Marks  []float64 // where one run ended and the next began
}

// line is a curve.
type line struct {
	Class  string
	Points string
}

// label is a text in a drawing.
type label struct {
	X, Y float64
	Text string
}

// chart returns an empty drawing over time.
func (p *plot) chart(height float64) chart {
	c := chart{Height: height, Ticks: p.ticks()}
	for _, end := range p.axis.ends() {
		c.Marks = append(c.Marks, p.x(end))
	}
	return c
}

// x returns the x coordinate of a time on the axis.
func (p *plot) x(t time.Duration) float64 { return width * float64(t) / float64(p.length) }

// period returns how long something lasted, and its rectangle. Its tooltip is text and that time.
func (p *plot) period(b view.Period, text, class string) (time.Duration, rect) {
	begin, end := p.axis.at(b.Time), p.length
	if !b.To.IsZero() {
		end = p.axis.at(b.To)
	}
	return end - begin, rect{
		X: p.x(begin), W: max(p.x(end)-p.x(begin), 1), Class: class, Title: text + ", for " + exactly(end-begin),
	}
}

// xOf returns the x coordinate of a column.
func xOf(column int) float64 { return width * float64(column) / columns }

// bar adds a bar to a column, on what stands there already.
func (c *chart) bar(column int, below, h float64, class, title string) {
	c.Rects = append(c.Rects, rect{
		X: xOf(column), Y: c.Height - below - h, W: width / columns, H: h, Class: class, Title: title,
	})
}

// curve adds a curve, unless it is empty.
func (c *chart) curve(class string, p points) {
	if len(p) > 0 {
		c.Lines = append(c.Lines, line{class, string(p)})
	}
}

// throughput draws how many attempts ended in each column, and how many items were waiting.
func (p *plot) throughput() chart {
	c := p.chart(120)
	most, waiting := 1, slices.Max(p.waiting.most[:])
	for _, ended := range p.ended {
		most = max(most, ended[succeeded]+ended[failed]+ended[retried])
	}
	each := p.length / columns
	var waits, rates points
	for i, ended := range p.ended {
		title := fmt.Sprintf("after %s: %d succeeded, %d failed, %d to be retried", roughly(time.Duration(i)*each),
			ended[succeeded], ended[failed], ended[retried])
		below := 0.0
		for _, how := range []outcome{succeeded, failed, retried} {
			if n := ended[how]; n > 0 {
				h := c.Height / float64(most) * float64(n)
				c.bar(i, below, h, classes[how].class, title)
				below += h
			}
		}
		if waiting > 0 {
			waits.add(xOf(i), c.Height-c.Height*p.waiting.most[i]/waiting)
		}
		if finished := p.finished.most[i]; finished > 0 {
			rates.add(xOf(i), c.Height-c.Height*p.failed.most[i]/finished)
		}
	}
	c.curve("waits", waits)
	c.curve("rate", rates)
	c.Name = fmt.Sprintf("Finished attempts over time (max %d per %s)", most, roughly(each))
	c.reaches(float64(most))
	if waiting > 1 {
		c.Labels = append(c.Labels, label{X: width + 3, Y: scaleHeight, Text: scaleText(waiting)})
	}
	return c
}

// scaleHeight is where the number stands that a drawing reaches up to.
const scaleHeight = 9.0

// reaches says what the top of a drawing stands for, on its left.
func (c *chart) reaches(most float64) {
	c.Labels = append(c.Labels, label{X: -28, Y: scaleHeight, Text: scaleText(most)})
}

// scaleText prints a number in a few characters.
func scaleText(n float64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.3gM", n/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%.3gk", n/1e3)
	case n >= 100:
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.2g", n)
}

// points are the corners of a curve.
type points []byte

// add adds a corner, as the attribute points of an SVG polyline has it.
func (p *points) add(x, y float64) { *p = fmt.Appendf(*p, "%.1f,%.1f ", x, y) }

// step adds a level of a column.
func (p *points) step(column int, y float64) {
	p.add(xOf(column), y)
	p.add(xOf(column+1), y)
}

// slots draws what each slot did: every attempt, or a summary if there are too many.
func (p *plot) slots() chart {
	lanes := slices.SortedFunc(maps.Keys(p.lanes), func(a, b lane) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.slot, b.slot))
	})
	row := 16.0
	if len(lanes) > 24 {
		row = 6
	}
	const head = 18.0 // of the name of a worker
	at, height, node := map[lane]float64{}, 0.0, ""
	c := p.chart(0)
	for _, l := range lanes {
		if l.node != node {
			node = l.node
			c.Labels = append(c.Labels, label{Y: height + head - 5, Text: p.nodes[node].text(node)})
			height += head
		}
		at[l] = height
		height += row
	}
	c.Height = max(height, row)
	c.Rects = p.background(c.Height)
	for _, l := range lanes {
		y := at[l]
		if row > 10 {
			c.Labels = append(c.Labels, label{X: -22, Y: y + row - 4, Text: l.text()})
		}
		if p.many {
			c.Rects = append(c.Rects, p.summed(p.lanes[l], y, row-1)...)
		}
	}
	for _, s := range p.spans {
		if y, drawn := at[s.lane]; drawn {
			c.Rects = append(c.Rects, p.attempt(s, y, row-1))
		}
	}
	c.Name = fmt.Sprintf("Slot usage over time (%d slots)", len(lanes))
	if n := len(p.nodes); n > 0 {
		c.Name += fmt.Sprintf(", by worker: %d", n)
	}
	return c
}

// background draws when something held back starts, and when breakers were not closed.
func (p *plot) background(height float64) (list []rect) {
	holds := p.job.HoldPeriods()
	for _, b := range holds[:min(len(holds), changesKept)] {
		_, r := p.period(b, events.Say(b.Record).Clause(), "pause")
		list = append(list, r)
	}
	breakers := p.job.BreakerPeriods()
	for _, b := range breakers[:min(len(breakers), changesKept)] {
		scope, t, _ := events.Transition(b.Event)
		what := "open"
		if _, half := b.Event.(events.CircuitHalfOpen); half {
			what = "half-open"
		}
		text := "breaker of " + scope + term.Prefixed(", key ", t.Key) + " " + what
		_, r := p.period(b, text, "breaker-"+what)
		list = append(list, r)
	}
	for i := range list {
		list[i].H = height
	}
	return list
}

// hold is what has held back starts, maybe several times.
type hold struct {
	Text  string // what it said at first
	Times int
	Total time.Duration
}

// held sums up what held back starts, by what it said first.
func (p *plot) held() map[string]*hold {
	all := map[string]*hold{}
	for _, b := range p.job.HoldPeriods() {
		h, _ := events.HoldOf(b.Event)
		if all[h.Name] == nil {
			all[h.Name] = &hold{Text: events.Say(b.Record).Clause()}
		}
		long, _ := p.period(b, "", "")
		all[h.Name].Times++
		all[h.Name].Total += long
	}
	return all
}

// on says which worker of a fleet a slot is of, and nothing for one of this machine.
func (l lane) on() string {
	switch {
	case l.node == "":
		return ""
	case l.slot == 0:
		return " on " + l.node
	}
	return fmt.Sprintf(" on %s, slot %d", l.node, l.slot)
}

// text names a slot. One of attempts that were lost before their slot was known has a mark of its own.
func (l lane) text() string {
	if l.slot == 0 {
		return "?"
	}
	return strconv.Itoa(l.slot)
}

// text says what became of the attempts of a worker.
func (t *tally) text(node string) string {
	if t == nil {
		return node
	}
	if t.host != "" {
		node += " on host " + t.host
	}
	text := node + ": " + check.Counted(t.attempts, "attempt")
	if t.lost > 0 {
		text += fmt.Sprintf(", %d lost", t.lost)
	}
	if t.back > 0 {
		text += fmt.Sprintf(", %d returned or stopped", t.back)
	}
	return text
}

// attempt draws an attempt as a bar.
func (p *plot) attempt(s span, y, h float64) rect {
	how := classes[s.Outcome]
	x := p.x(s.From)
	wide := max(p.x(s.To)-x, 1)
	if wide > 3 {
		wide-- // so that it can be told apart from the next
	}
	return rect{
		X: x, Y: y, W: wide, H: h, Class: how.class,
		Title: fmt.Sprintf("%s, attempt %d%s %s after %s", s.ItemID, s.Number, s.lane.on(), how.word,
			exactly(s.To-s.From)),
	}
}

// summed draws the summary of a lane: how busy it was, and from the bottom the share of failed attempts.
func (p *plot) summed(lane []cell, y, h float64) []rect {
	each := p.length / time.Duration(p.width)
	busy, bad := strip{step: width / float64(p.width)}, strip{step: width / float64(p.width)}
	for i, c := range lane {
		if c.busy > 0 {
			busy.add(i, "busy"+fmt.Sprint(min(int(4*float64(c.busy)/float64(max(each, 1))), 3)), y, h)
		}
		if c.failed > 0 {
			share := h * math.Ceil(4*float64(c.failed)/float64(c.ended)) / 4
			bad.add(i, "bad", y+h-share, share)
		}
	}
	return append(busy.rects, bad.rects...)
}

// strip is a row of cells in which equal neighbours become one rectangle.
type strip struct {
	step  float64
	rects []rect
}

// add adds the cell with an index, or widens the rectangle before it if that looks the same.
func (s *strip) add(i int, class string, y, h float64) {
	x := float64(i) * s.step
	if n := len(s.rects); n > 0 {
		if last := &s.rects[n-1]; last.Class == class && last.H == h && last.X+last.W > x-s.step/2 {
			last.W += s.step
			return
		}
	}
	s.rects = append(s.rects, rect{X: x, Y: y, W: s.step, H: h, Class: class})
}

// lengths draws the histogram of attempt durations.
func lengths(cells []duration.Cell) chart {
	const height = 90.0
	c := chart{Height: height, Name: "Attempt durations"}
	if len(cells) == 0 {
		return c
	}
	most := slices.MaxFunc(cells, func(a, b duration.Cell) int { return cmp.Compare(a.Count, b.Count) }).Count
	each := width / float64(len(cells))
	for i, cell := range cells {
		h := height * float64(cell.Count) / float64(most)
		c.Rects = append(c.Rects, rect{
			X: float64(i) * each, Y: height - h, W: max(each-1, 0.5), H: h, Class: "ok",
			Title: fmt.Sprintf("%s to %s: %s", duration.Format(cell.From), duration.Format(cell.To),
				check.Counted(cell.Count, "attempt")),
		})
		if i%max(len(cells)/6, 1) == 0 {
			c.Ticks = append(c.Ticks, tick{At: float64(i) * each, Text: roughly(cell.From)})
		}
	}
	return c
}

// ticks returns a few round marks on the axis.
func (p *plot) ticks() []tick {
	var list []tick
	step := p.length / 6
	for _, round := range []time.Duration{
		time.Hour, time.Minute, time.Second, 100 * time.Millisecond,
		10 * time.Millisecond, time.Millisecond,
	} {
		if step >= round {
			step = step.Round(round)
			break
		}
	}
	for t := time.Duration(0); t <= p.length; t += max(step, time.Millisecond) {
		list = append(list, tick{At: p.x(t), Text: roughly(t)})
	}
	return list
}
