package web

import (
	"cmp"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/view"
)

const (
	columns   = 160 // of the chart over time
	laneCells = 400 // at most, of a lane
	lanesKept = 512 // slots that are drawn
)

// bounds keep a page small.
type bounds struct {
	spans int // attempts that are drawn individually; more are summarized
	cells int // of the summed-up lanes
	rows  int // of each table about the merge queue
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

// span is an attempt in its slot, on the axis of the job.
type span struct {
	From, To time.Duration
	lane     lane
	Outcome  outcome
	ItemID   string
	Number   int
	Waits    []wait
	fleet    bool // it was given to a fleet
	awaits   bool // no worker of that has it yet, and it is not counted as running
}

// lane is a slot. On a fleet it is one of a worker; slot 0 is that of attempts of which only the worker is known.
type lane struct {
	node string
	slot int
}

func (l lane) compare(o lane) int {
	return cmp.Or(cmp.Compare(l.node, o.node), cmp.Compare(l.slot, o.slot))
}

// tally counts the attempts of a worker of a fleet.
type tally struct {
	attempts, lost, back int

	host string // that it is on, if it has another name
}

// wait is a time in which an attempt waited for the next try of a step.
type wait struct{ From, To time.Duration }

// column counts what happened in one of the equal parts of the axis.
type column struct {
	ended                 [unended + 1]int // attempts, by outcome
	waiting               int              // items that waited for their next attempt, at most
	finished, failedSoFar int              // items, up to its end
}

// cell is what a slot did in one of the equal parts of the axis.
type cell struct {
	busy          time.Duration
	ended, failed int // attempts
}

// plot collects what the charts draw over time, from records in the order of the log.
type plot struct {
	job     *view.Job // after the records so far
	axis    *axis
	length  time.Duration
	cols    [columns]column
	kept    bounds
	spans   []span // nil once there are more than are kept
	many    bool
	lanes   map[lane][]cell
	nodes   map[string]*tally // of a job on a fleet
	width   int               // cells of a lane
	runs    map[int]*span     // attempts that run, by item index
	byID    map[string]*span
	waiting map[int]time.Duration
	changes [columns + 1]int // of the number of waiting items
	queue   queue
	limits  limits
}

// newPlot returns an empty plot for a job with this number of slots.
func newPlot(a *axis, workers int, kept bounds) *plot {
	p := &plot{
		job: view.New(), axis: a, kept: kept, length: max(a.length(), time.Millisecond), lanes: map[lane][]cell{},
		nodes: map[string]*tally{}, runs: map[int]*span{}, byID: map[string]*span{},
		waiting: map[int]time.Duration{},
		width:   min(laneCells, max(kept.cells/max(workers, 1), 40)),
	}
	p.queue = newQueue(p.width)
	return p
}

func (p *plot) see(r events.Record) {
	now := p.axis.at(r.Time)
	p.goTo(p.part(now, columns))
	runs, depth, verify := p.job.Runs, p.job.Unmerged(), p.job.Merges.Verifying
	p.job.Apply(r)
	p.queued(r, now, depth, verify)
	p.limited(r, now, p.job.Runs != runs)
	switch e := r.Event.(type) {
	case events.JobResumed:
		for index := range p.runs {
			if !e.IsAttached(index) {
				p.close(index, now, stopped)
			}
		}
	case events.AgentStarted:
		p.stopWaiting(e.ItemIndex, now)
		s := &span{From: now, lane: lane{slot: e.Worker}, ItemID: e.ItemID, Number: e.Attempt, fleet: e.Fleet}
		if e.Fleet {
			s.lane.slot = 0 // it waits for a worker
		}
		p.runs[e.ItemIndex], p.byID[e.ItemID] = s, s
	case events.StepRetrying:
		p.stepWaits(e, now)
	case events.AgentPlaced:
		if s := p.runs[e.ItemIndex]; s != nil {
			s.lane, s.From = lane{e.Node, e.Slot}, now
			p.at(e.Node, e.Host)
		}
	}
	if end, ok := events.EndOf(r.Event); ok && end.How != events.Reused && end.How != events.Superseded {
		p.ended(end, now)
	}
}

// ended draws an attempt that has ended, and counts what it means for its item.
func (p *plot) ended(end events.End, now time.Duration) {
	if s := p.runs[end.Index]; end.How == events.Lost && s != nil && s.lane.node == "" {
		s.lane.node = end.Node
		p.at(end.Node, end.Host)
	}
	if !end.How.GivenBack() {
		p.at(end.Node, end.Host)
		p.ran(end, now)
	}
	how := outcomeOf(end)
	p.cols[p.part(now, columns)].ended[how]++
	p.close(end.Index, now, how)
	if how == retried {
		p.waiting[end.Index] = now
	}
}

func outcomeOf(end events.End) outcome {
	if end.How == events.Failed && !end.Settles {
		return retried
	}
	return outcomes[end.How]
}

var outcomes = map[events.How]outcome{
	events.Succeeded: succeeded, events.Failed: failed, events.Stopped: stopped, events.Lost: lost,
}

// ran notes where an attempt ran that ends now. One that ends soon is placed nowhere before.
func (p *plot) ran(end events.End, now time.Duration) {
	if s := p.runs[end.Index]; s != nil && end.Node != "" {
		s.lane = lane{end.Node, end.Slot}
		s.From = max(s.From, now-end.Took)
	}
}

// waitsKept bounds the waits of one attempt.
const waitsKept = 20

func (p *plot) stepWaits(e events.StepRetrying, now time.Duration) {
	if s := p.byID[e.ItemID]; s != nil && len(s.Waits) < waitsKept {
		s.Waits = append(s.Waits, wait{From: now, To: now + time.Duration(e.DelayMS)})
	}
}

func (p *plot) close(index int, now time.Duration, o outcome) {
	s := p.runs[index]
	if s == nil {
		return // rejected by the breaker
	}
	delete(p.runs, index)
	delete(p.byID, s.ItemID)
	p.draw(s, now, o)
}

// draw adds an attempt that has ended.
func (p *plot) draw(s *span, now time.Duration, o outcome) {
	s.To, s.Outcome = now, o
	if s.lane == (lane{}) {
		return // it never came to a worker
	}
	if s.lane.node != "" {
		p.count(s.lane.node, o)
	}
	p.fill(s)
	if p.many = p.many || len(p.spans) == p.kept.spans; p.many {
		p.spans = nil
		return
	}
	p.spans = append(p.spans, *s)
}

// tally returns the counts of a worker of a fleet.
func (p *plot) tally(node string) *tally {
	t := p.nodes[node]
	if t == nil {
		t = new(tally)
		p.nodes[node] = t
	}
	return t
}

// at notes the machine of a worker.
func (p *plot) at(node, host string) {
	if host != "" {
		p.tally(node).host = host
	}
}

// count counts an attempt of a worker of a fleet.
func (p *plot) count(node string, o outcome) {
	t := p.tally(node)
	t.attempts++
	switch o {
	case lost:
		t.lost++
	case stopped:
		t.back++
	}
}

// fill adds the span to the summary of its lane.
func (p *plot) fill(s *span) {
	cells := p.lanes[s.lane]
	if cells == nil {
		if len(p.lanes) == lanesKept {
			return
		}
		cells = make([]cell, p.width)
		p.lanes[s.lane] = cells
	}
	p.fillCells(cells, s.From, s.To, s.Outcome == failed || s.Outcome == retried || s.Outcome == lost)
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

func (p *plot) stopWaiting(index int, now time.Duration) {
	from, ok := p.waiting[index]
	if !ok {
		return
	}
	delete(p.waiting, index)
	p.changes[p.part(from, columns)]++
	p.changes[p.part(now, columns)+1]--
}

// part returns the index of the part that t lies in, of n equal parts of the axis.
func (p *plot) part(t time.Duration, n int) int {
	return int(min(max(float64(t)/float64(p.length), 0)*float64(n), float64(n-1)))
}

// finish ends the attempts and waits that have no end in the log, and adds up the columns. Running says that
// the job goes on.
func (p *plot) finish(running bool) {
	how := stopped
	if running {
		how = unended
	}
	if v := p.job.Merges.Verifying; v != nil {
		p.verified(v, p.length, how)
	}
	p.deepen(p.length)
	for index := range p.runs {
		p.close(index, p.length, how)
	}
	for index := range p.waiting {
		p.stopWaiting(index, p.length)
	}
	finished, bad, waits := 0, 0, 0
	for i := range p.cols {
		c := &p.cols[i]
		finished += c.ended[succeeded] + c.ended[failed]
		bad += c.ended[failed]
		waits += p.changes[i]
		c.finished, c.failedSoFar, c.waiting = finished, bad, waits
	}
}
