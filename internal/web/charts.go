package web

import (
	"html/template"
	"iter"
	"strings"
	"time"

	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/view"
)

// charts are the drawings of a job.
type charts struct {
	Throughput chart
	Slots      chart

	// There are too many attempts to draw each one.
	SummedUp bool

	Lengths   chart
	Durations *duration.Histogram

	// The merge queue. It is nil if the job has no workspaces.
	Merges *merges

	// How many slots were busy, and starts, if a limit of them has changed or they took turns.
	Busy []chart

	// What held back starts, by its name.
	Held map[string]*hold

	// The rates that the workflow allows, in words.
	Rates string
}

// draw folds the log and draws it. It reads the log twice. Now is the time if the job is running, else zero.
func draw(records iter.Seq2[events.Record, error], now time.Time, kept bounds) (*view.Job, charts, error) {
	a, slots := &axis{}, 0
	err := events.Each(records, func(r events.Record) {
		a.see(r)
		if n, ok := events.SlotsOf(r.Event); ok {
			slots = n
		}
	})
	if err != nil {
		return nil, charts{}, err
	}
	a.extend(now)
	p := newPlot(a, slots, kept)
	if err := events.Each(records, p.see); err != nil {
		return nil, charts{}, err
	}
	p.finish(!now.IsZero())
	job := p.job
	return job, charts{
		Busy: p.busy(), Held: p.held(), Rates: strings.Join(p.rates, ", "),
		Merges:     mergesOf(job, p, kept.rows),
		Throughput: p.throughput(), Slots: p.slots(), SummedUp: p.many, Lengths: lengths(job.Durations.Cells()),
		Durations: &job.Durations,
	}, nil
}

// chartsOf returns the view of a job and its charts, for a page that is made again and again. Now is the time if the
// job is running, else zero.
func chartsOf(records iter.Seq2[events.Record, error], now time.Time) (*view.Job, template.HTML, error) {
	job, c, err := draw(records, now, pageKept)
	if err != nil {
		return nil, "", err
	}
	return job, template.HTML(render("charts", c)), nil // escaped by the template
}
