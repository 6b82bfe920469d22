package web

import (
	"iter"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/view"
)

const (
	columns = 160 // of the charts over time

	// How many attempts are drawn, the newest: on a page that is drawn again while the job runs, and in a report.
	pageKept   = 500
	reportKept = 2_000

	holdsDrawn = 200 // times without starts, and as many with a breaker that was not closed
)

// outcome is how an attempt ended.
type outcome byte

const (
	succeeded outcome = iota
	failed
	retried // failed, and followed by another attempt
	stopped // interrupted, or running when the run died
	lost    // with its worker

	unended // running now
)

// outcomes are those of the ends of attempts. One that is not here, such as a reused result, had no attempt.
var outcomes = map[events.How]outcome{
	events.Succeeded: succeeded, events.Failed: failed, events.Stopped: stopped, events.Lost: lost,
}

// classes are the CSS classes of attempts by outcome, and the words for tooltips.
var classes = [...]struct{ class, word string }{
	succeeded: {"ok", "succeeded"},
	retried:   {"again", "failed (retried)"},
	failed:    {"bad", "failed"},
	stopped:   {"stopped", "interrupted, or running when prodigy crashed"},
	lost:      {"stopped", "lost with its worker"},

	unended: {"unended", "is running"},
}

// span is an attempt in its slot, on the axis of the job.
type span struct {
	view.Attempt
	from, to time.Duration
	lane     lane
	outcome  outcome
}

// lane is a slot. On a fleet it is one of a worker; slot 0 is that of attempts of which only the worker is known.
type lane struct {
	node string
	slot int
}

// series is a number that changes over the columns.
type series struct {
	most [columns]float64 // in each column
	at   int              // the column of the last change
	now  float64          // since then
}

// set notes that the number is n from a moment in a column on. Until then it was as it was set last.
func (s *series) set(column, n int) {
	for s.at < column {
		s.at++
		s.most[s.at] = s.now
	}
	s.now = float64(n)
	s.most[column] = max(s.most[column], s.now)
}

// plot collects what the charts draw over time, from records in the order of the log.
type plot struct {
	// The view of the job after the records so far.
	job *view.Job

	axis *axis

	// The length of the axis, at least a millisecond.
	length time.Duration

	// The attempts that ended in each column, by outcome.
	ended [columns][unended + 1]int

	// Items that wait for their next attempt or to be merged, attempts at a time, and how many of them there may be.
	waiting, merging, running, allowed series

	// The newest merges, conflicts and runs of verify, as they are drawn.
	merges []rect

	// The newest attempts that have ended, at most so many, and the number of those before.
	spans      []span
	most, left int
}

// plotted reads a log twice. Now is the time if the job is running, else zero. Most is how many attempts are drawn.
func plotted(records iter.Seq2[events.Record, error], now time.Time, most int) (*plot, error) {
	a := &axis{}
	if err := events.Each(records, a.see); err != nil {
		return nil, err
	}
	a.extend(now)
	p := &plot{job: view.New(), axis: a, length: max(a.length(), time.Millisecond), most: most}
	if err := events.Each(records, p.see); err != nil {
		return nil, err
	}
	how := stopped
	if !now.IsZero() {
		how = unended
	}
	for _, attempt := range p.job.InFlight() {
		p.close(attempt, events.End{}, p.length, how)
	}
	p.count(columns - 1)
	return p, nil
}

// see takes the next record.
func (p *plot) see(r events.Record) {
	now := p.axis.at(r.Time)
	column := min(int(float64(now)/float64(p.length)*columns), columns-1)
	end, ends := events.EndOf(r.Event)
	attempt, ran := p.job.Attempt(end.Index)
	var all []view.Attempt // that may end with their run
	_, resumed := r.Event.(events.JobResumed)
	if _, over := events.RunEndOf(r.Event); over || resumed {
		all = p.job.InFlight()
	}
	p.job.Apply(r)
	p.seeMerge(r)
	if how, known := outcomes[end.How]; ends && known {
		if how == failed && !end.Settles {
			how = retried
		}
		p.ended[column][how]++
		if ran {
			p.close(attempt, end, now, how)
		}
	}
	for _, a := range all {
		if p.job.StatusOf(a.Index) != view.InFlight {
			p.close(a, events.End{}, now, stopped)
		}
	}
	p.count(column)
}

// count notes how many there are of all by now.
func (p *plot) count(column int) {
	running, slots := p.job.AtWork(), p.job.Slots()
	if slots == 0 {
		slots = running // those of a fleet are not known yet
	}
	p.running.set(column, min(running, slots))
	p.allowed.set(column, slots)
	p.waiting.set(column, p.job.Retrying())
	p.merging.set(column, p.job.Merging())
}

// close adds an attempt that is over, or goes on at the end of the log. One that ends soon is placed nowhere before.
func (p *plot) close(a view.Attempt, end events.End, now time.Duration, o outcome) {
	if end.Node != "" && (a.Node == "" || !end.How.GivenBack()) {
		a.Place = end.Place
	}
	at := lane{a.Node, a.Slot}
	switch {
	case a.Node != "":
	case a.Fleet:
		return // it never came to a worker
	default:
		at.slot = a.Worker
	}
	from := max(p.axis.at(a.Began), p.axis.at(a.Placed))
	if end.Took > 0 {
		from = max(from, now-end.Took)
	}
	if len(p.spans) == p.most {
		p.spans = p.spans[1:]
		p.left++
	}
	p.spans = append(p.spans, span{a, from, now, at, o})
}
