package web

import (
	"cmp"
	"fmt"
	"html/template"
	"iter"
	"slices"
	"strconv"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/events"
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

// label is a text in a drawing, or below it.
type label struct {
	X, Y float64
	Text string
}

// chart is a drawing, which the template renders as an SVG element.
type chart struct {
	Height float64
	Name   string // its accessible name
	Rects  []rect
	Line   string // the corners of a curve, as the attribute points of an SVG polyline has them
	Labels []label
	Ticks  []label   // on the axis
	Marks  []float64 // where one run ended and the next began
}

// charts are the drawings of a job.
type charts struct {
	Job        *view.Job
	Throughput chart
	Busy       chart // how many slots were, and what held back starts
	Slots      chart
	Left       int   // attempts before those that are drawn in their slots
	Queue      chart // of merges
	Lengths    chart

	// What held back starts, by its name.
	Held map[string]*hold
}

// hold is what has held back starts, maybe several times.
type hold struct {
	Text  string // what it said at first
	Times int
	Total time.Duration
}

// draw folds the log and draws it. Now is the time if the job is running, else zero. Most is how many attempts are
// drawn.
func draw(records iter.Seq2[events.Record, error], now time.Time, most int) (charts, error) {
	p, err := plotted(records, now, most)
	if err != nil {
		return charts{}, err
	}
	c := charts{
		Job: p.job, Throughput: p.throughput(), Busy: p.busy(), Slots: p.slots(), Left: p.left,
		Queue: p.mergeQueue(), Lengths: lengths(p.job.Durations.Cells()), Held: map[string]*hold{},
	}
	for _, b := range p.job.HoldPeriods.List {
		h, _ := events.HoldOf(b.Event)
		if c.Held[h.Name] == nil {
			c.Held[h.Name] = &hold{Text: events.Say(b.Record).Clause()}
		}
		_, long := p.during(b)
		c.Held[h.Name].Times++
		c.Held[h.Name].Total += long
	}
	return c, nil
}

// chartsOf returns the view of a job and its charts, for a page that is made again and again. Now is the time if the
// job is running, else zero.
func chartsOf(records iter.Seq2[events.Record, error], now time.Time) (*view.Job, template.HTML, error) {
	c, err := draw(records, now, pageKept)
	if err != nil {
		return nil, "", err
	}
	return c.Job, template.HTML(render("charts", c)), nil // escaped by the template
}

// chart returns an empty drawing over time, with a few round marks on its axis.
func (p *plot) chart(height float64) chart {
	c := chart{Height: height}
	step := p.length / 6
	for _, round := range []time.Duration{time.Hour, time.Minute, time.Second, 100 * time.Millisecond} {
		if step >= round {
			step = step.Round(round)
			break
		}
	}
	for t := time.Duration(0); t <= p.length; t += max(step, time.Millisecond) {
		c.Ticks = append(c.Ticks, label{X: p.x(t), Text: roughly(t)})
	}
	for i, r := range p.axis.runs {
		if i > 0 {
			c.Marks = append(c.Marks, p.x(r.before))
		}
	}
	return c
}

// x returns the x coordinate of a time on the axis.
func (p *plot) x(t time.Duration) float64 { return width * float64(t) / float64(p.length) }

// during returns when something began to hold back starts, and how long it did.
func (p *plot) during(b view.Period) (begin, long time.Duration) {
	begin, end := p.axis.at(b.Time), p.length
	if !b.To.IsZero() {
		end = p.axis.at(b.To)
	}
	return begin, end - begin
}

// xOf returns the x coordinate of a column.
func xOf(column int) float64 { return width * float64(column) / columns }

// bar adds a bar to a column, on what stands there already.
func (c *chart) bar(column int, below, h float64, class, title string) {
	c.Rects = append(c.Rects, rect{
		X: xOf(column), Y: c.Height - below - h, W: width / columns, H: h, Class: class, Title: title,
	})
}

// step adds a level of a column to the curve.
func (c *chart) step(column int, h float64) {
	for _, x := range []float64{xOf(column), xOf(column + 1)} {
		c.Line += fmt.Sprintf("%.1f,%.1f ", x, c.Height-h)
	}
}

// scale writes a number at the top of a drawing, which says what that stands for.
func (c *chart) scale(x, most float64) {
	c.Labels = append(c.Labels, label{x, 9, strconv.FormatFloat(most, 'g', 4, 64)})
}

// throughput draws how many attempts ended in each column, and how many items were waiting.
func (p *plot) throughput() chart {
	c := p.chart(120)
	most, waiting := 1, max(slices.Max(p.waiting.most[:]), 1)
	for _, ended := range p.ended {
		most = max(most, ended[succeeded]+ended[failed]+ended[retried])
	}
	each := p.length / columns
	for i, ended := range p.ended {
		title := fmt.Sprintf("after %s: %d succeeded, %d failed, %d to be retried", roughly(time.Duration(i)*each),
			ended[succeeded], ended[failed], ended[retried])
		below := 0.0
		for how, n := range ended[:stopped] {
			if n > 0 {
				h := c.Height / float64(most) * float64(n)
				c.bar(i, below, h, classes[how].class, title)
				below += h
			}
		}
		c.step(i, c.Height*p.waiting.most[i]/waiting)
	}
	c.Name = fmt.Sprintf("Finished attempts over time (max %d per %s)", most, roughly(each))
	c.scale(-28, float64(most))
	c.scale(width+3, waiting)
	return c
}

// busy draws how many slots were busy, their limit, and what held back starts.
func (p *plot) busy() chart {
	c := p.chart(90)
	p.background(&c)
	most := max(1, slices.Max(p.allowed.most[:]))
	for i, allowed := range p.allowed.most {
		if n := p.running.most[i]; n > 0 {
			c.bar(i, 0, c.Height*n/most, "ok",
				fmt.Sprintf("after %s: %.0f of %.0f slots", roughly(p.length/columns*time.Duration(i)), n, allowed))
		}
		c.step(i, c.Height*allowed/most)
	}
	c.Name = fmt.Sprintf("Busy slots and their limit over time (max %.0f)", most)
	c.scale(-28, most)
	return c
}

// background draws when something held back starts, and when breakers were not closed.
func (p *plot) background(c *chart) {
	for class, list := range check.ByKey(map[string][]view.Period{
		"breaker": p.job.BreakerPeriods.List, "pause": p.job.HoldPeriods.List,
	}) {
		for _, b := range check.First(list, holdsDrawn) {
			begin, long := p.during(b)
			c.Rects = append(c.Rects, rect{
				X: p.x(begin), W: max(p.x(long), 1), H: c.Height, Class: class,
				Title: events.Say(b.Record).Clause() + ", for " + duration.Milliseconds(long),
			})
		}
	}
}

// slots draws what each slot did: the newest attempts, each as a bar.
func (p *plot) slots() chart {
	lanes := check.Each(p.spans, func(s span) lane { return s.lane })
	slices.SortFunc(lanes, func(a, b lane) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.slot, b.slot))
	})
	lanes = slices.Compact(lanes)
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
			c.Labels = append(c.Labels, label{Y: height + head - 5, Text: node})
			height += head
		}
		at[l] = height
		height += row
		if row > 10 && l.slot > 0 {
			c.Labels = append(c.Labels, label{X: -22, Y: height - 4, Text: strconv.Itoa(l.slot)})
		}
	}
	c.Height = max(height, row)
	p.background(&c)
	for _, s := range p.spans {
		wide := max(p.x(s.to-s.from), 1)
		if wide > 3 {
			wide-- // so that it can be told apart from the next
		}
		how, where := classes[s.outcome], ""
		if s.Node != "" {
			where = " on " + s.Where()
		}
		c.Rects = append(c.Rects, rect{
			X: p.x(s.from), Y: at[s.lane], W: wide, H: row - 1, Class: how.class,
			Title: fmt.Sprintf("%s, attempt %d%s %s after %s", s.ItemID, s.Number, where, how.word,
				duration.Milliseconds(s.to-s.from)),
		})
	}
	c.Name = fmt.Sprintf("Slot usage over time (%d slots)", len(lanes))
	return c
}

// lengths draws the histogram of attempt durations.
func lengths(cells []duration.Cell) chart {
	c := chart{Height: 90, Name: "Attempt durations"}
	most := 1
	for _, cell := range cells {
		most = max(most, cell.Count)
	}
	each := width / float64(len(cells))
	for i, cell := range cells {
		x, h := float64(i)*each, c.Height*float64(cell.Count)/float64(most)
		c.Rects = append(c.Rects, rect{
			X: x, Y: c.Height - h, W: max(each-1, 0.5), H: h, Class: "ok",
			Title: fmt.Sprintf("%s to %s: %s", duration.Format(cell.From), duration.Format(cell.To),
				check.Counted(cell.Count, "attempt")),
		})
		if i%max(len(cells)/6, 1) == 0 {
			c.Ticks = append(c.Ticks, label{X: x, Text: roughly(cell.From)})
		}
	}
	return c
}
