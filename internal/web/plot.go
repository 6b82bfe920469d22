package web

import (
	"cmp"
	"time"

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

// bar is a rectangle of a track.
type bar struct {
	From, To time.Duration
	Class    string
	Title    string
}

// track is a row of bars, of one who does one thing after another.
type track struct {
	bars  []bar
	cells []cell // what it did in each of the equal parts of the axis
}

// queue collects what is drawn of the merge queue.
type queue struct {
	merger, verify track
	depths         [columns]int // how many waited, at most
	depth          int          // how many wait since the last change
	last           int          // its column
}

func newQueue(width int) queue {
	return queue{merger: track{cells: make([]cell, width)}, verify: track{cells: make([]cell, width)}}
}

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

// classes are the CSS classes of attempts by outcome, and the words for tooltips.
var classes = [...]struct{ class, word string }{
	succeeded: {"ok", "succeeded"},
	retried:   {"again", "failed (retried)"},
	failed:    {"bad", "failed"},
	stopped:   {"stopped", "interrupted, or running when prodigy crashed"},
	lost:      {"stopped", "lost with its worker"},

	unended: {"unended", "is running"},
}
