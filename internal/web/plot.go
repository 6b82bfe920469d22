package web

import (
	"slices"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/view"
)

const (
	columns   = 160 // of the charts over time
	laneCells = 400 // at most, of a lane
	lanesKept = 512 // slots that are drawn
)

// bounds keep a page small.
type bounds struct {
	// The number of attempts that are drawn individually. More are summarized.
	spans int

	// The number of cells of all lanes that are summarized.
	cells int

	// The number of rows of each table about the merge queue.
	rows int
}

var (
	plotKept = bounds{spans: 2_000, cells: 24_000, rows: 200} // of a report
	pageKept = bounds{spans: 500, cells: 6_000, rows: 20}     // of a page that is drawn again while the job runs
)

// outcome is how an attempt ended.
type outcome byte

const (
	succeeded outcome = iota
	retried           // failed, and followed by another attempt
	failed
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
	From, To time.Duration
	lane     lane
	Outcome  outcome
	ItemID   string
	Number   int
}

// lane is a slot. On a fleet it is one of a worker; slot 0 is that of attempts of which only the worker is known.
type lane struct {
	node string
	slot int
}

// tally counts the attempts of a worker of a fleet.
type tally struct {
	attempts, lost, back int

	// The machine of the worker, if it has another name.
	host string
}

// series is a number that changes over the columns.
type series struct {
	most [columns]float64 // in each column
	at   int              // the column of the last change
	now  float64          // since then
}

// set notes that the number is n from a moment in a column on. Until then it was as it was set last.
func (s *series) set(column int, n float64) {
	for s.at < column {
		s.at++
		s.most[s.at] = s.now
	}
	s.now = n
	s.most[column] = max(s.most[column], n)
}

// cell is what a slot did in one of the equal parts of the axis.
type cell struct {
	// How much of the time of the cell something ran. It is at most the time of a cell, for one slot.
	busy time.Duration

	ended, failed int // attempts
}

// plot collects what the charts draw over time, from records in the order of the log.
type plot struct {
	// The view of the job after the records so far.
	job *view.Job

	axis *axis

	// The length of the axis, at least a millisecond.
	length time.Duration

	kept bounds

	// The attempts that ended in each column, by outcome, and the number of those that started.
	ended  [columns][unended + 1]int
	starts [columns]int

	// Items: those that wait for their next attempt or to be merged, those with an outcome, and the failed of these.
	waiting, merging, finished, failed series

	// Attempts at a time, how many there may be, and how many may start in a second; 0 if nothing limits that.
	running, allowed, rate series

	// The attempts that have ended. It is nil once there are more than are drawn individually.
	spans []span

	// There are too many attempts to draw each one.
	many bool

	// What each slot did, in cells, of which each has width.
	lanes map[lane][]cell
	width int

	// The workers of a fleet, by name. It is empty if the job runs on this machine.
	nodes map[string]*tally

	// The rates of the workflow in words, also those that are drawn nowhere.
	rates []string

	// The records that changed a limit.
	changes []events.Record
}

// newPlot returns an empty plot for a job with this number of slots.
func newPlot(a *axis, workers int, kept bounds) *plot {
	return &plot{
		job: view.New(), axis: a, kept: kept, length: max(a.length(), time.Millisecond), lanes: map[lane][]cell{},
		nodes: map[string]*tally{}, width: min(laneCells, max(kept.cells/max(workers, 1), 40)),
	}
}

const (
	ratesKept   = 20  // of the workflows of a job, that are written out
	changesKept = 200 // changes, and times without starts, that are drawn
)

// see takes the next record.
func (p *plot) see(r events.Record) {
	now := p.axis.at(r.Time)
	column := p.part(now, columns)
	end, ends := events.EndOf(r.Event)
	attempt, ran := p.job.Attempt(end.Index)
	var all []view.Attempt // that may end with their run
	_, resumed := r.Event.(events.JobResumed)
	if _, over := events.RunEndOf(r.Event); over || resumed {
		all = p.job.InFlight()
	}
	p.job.Apply(r)
	switch r.Event.(type) {
	case events.JobStarted, events.JobResumed:
		for _, rate := range p.job.Rates {
			if words := rate.Words(); len(p.rates) < ratesKept && !slices.Contains(p.rates, words) {
				p.rates = append(p.rates, words)
			}
		}
	case events.ScaleRequested, events.ConcurrencyChanged:
		if len(p.changes) < changesKept {
			p.changes = append(p.changes, r)
		}
	case events.AgentStarted, events.StepRetried:
		p.starts[column]++
	}
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
	j := p.job
	running, slots := j.AtWork(), j.Slots()
	if slots == 0 {
		slots = running // those of a fleet are not known yet
	}
	p.running.set(column, float64(min(running, slots)))
	p.allowed.set(column, float64(slots))
	p.waiting.set(column, float64(j.Retrying()))
	p.merging.set(column, float64(j.Unmerged()))
	p.finished.set(column, float64(j.Counts.Finished()))
	p.failed.set(column, float64(j.Counts.Failed))
	rate := 0.0
	for _, r := range j.Rates {
		if r.Step == "" && r.Per == "" {
			rate = r.PerSecond
		}
	}
	if j.Limit != nil && j.Limit.Rate > 0 && (rate == 0 || j.Limit.Rate < rate) {
		rate = j.Limit.Rate
	}
	p.rate.set(column, rate)
}

// close draws an attempt that is over, or goes on at the end of the log. One that ends soon is placed nowhere before.
func (p *plot) close(a view.Attempt, end events.End, now time.Duration, o outcome) {
	place := a.Place
	if end.Node != "" && (place.Node == "" || !end.How.GivenBack()) {
		place = end.Place
	}
	s := span{
		From: max(p.axis.at(a.Began), p.axis.at(a.Placed)), To: now, lane: lane{place.Node, place.Slot}, Outcome: o,
		ItemID: a.ItemID, Number: a.Number,
	}
	if end.Took > 0 {
		s.From = max(s.From, now-end.Took)
	}
	switch {
	case place.Node != "":
		t := p.nodes[place.Node]
		if t == nil {
			t = new(tally)
			p.nodes[place.Node] = t
		}
		t.add(o, place.Host)
	case a.Fleet:
		return // it never came to a worker
	default:
		s.lane.slot = a.Worker
	}
	if p.lanes[s.lane] == nil && len(p.lanes) < lanesKept {
		p.lanes[s.lane] = make([]cell, p.width)
	}
	if cells := p.lanes[s.lane]; cells != nil {
		p.fillCells(cells, s.From, s.To, o == failed || o == retried || o == lost)
	}
	if p.many = p.many || len(p.spans) == p.kept.spans; p.many {
		p.spans = nil
		return
	}
	p.spans = append(p.spans, s)
}

// add counts an attempt of a worker, whose machine is known if host is not empty.
func (t *tally) add(o outcome, host string) {
	t.attempts++
	switch o {
	case lost:
		t.lost++
	case stopped:
		t.back++
	}
	if host != "" {
		t.host = host
	}
}

// finish ends what has no end in the log. Running says that the job goes on.
func (p *plot) finish(running bool) {
	how := stopped
	if running {
		how = unended
	}
	for _, a := range p.job.InFlight() {
		p.close(a, events.End{}, p.length, how)
	}
	p.count(columns - 1)
}

// fillCells adds something that took time, and has failed if bad, to the parts of the axis.
func (p *plot) fillCells(lane []cell, start, end time.Duration, bad bool) {
	each := p.length / time.Duration(p.width)
	for i := p.part(start, p.width); i <= p.part(end, p.width); i++ {
		from, to := time.Duration(i)*each, time.Duration(i+1)*each
		lane[i].busy += max(min(end, to)-max(start, from), 0)
	}
	last := &lane[p.part(end, p.width)]
	last.ended++
	if bad {
		last.failed++
	}
}

// part returns the index of the part that t lies in, of n equal parts of the axis.
func (p *plot) part(t time.Duration, n int) int {
	return int(min(max(float64(t)/float64(p.length), 0)*float64(n), float64(n-1)))
}
