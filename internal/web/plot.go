package web

import (
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

// span is an attempt in its slot, on the axis of the job.
type span struct {
	From, To time.Duration
	lane     lane
	Outcome  outcome
	ItemID   string
	Number   int
	Waits    []wait

	// It was given to a fleet.
	fleet bool

	// No worker of the fleet has it yet, and it does not count as running.
	awaits bool
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

// wait is a time in which an attempt waited for the next try of a step.
type wait struct{ From, To time.Duration }

// column counts what happened in one of the equal parts of the axis.
type column struct {
	// The attempts that ended in the column, by outcome.
	ended [unended + 1]int

	// The number of items that waited for their next attempt, at most.
	waiting int

	finished, failedSoFar int // items, up to its end
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

	cols [columns]column
	kept bounds

	// The attempts that have ended. It is nil once there are more than are drawn individually.
	spans []span

	// There are too many attempts to draw each one.
	many bool

	// What each slot did, in cells.
	lanes map[lane][]cell

	// The workers of a fleet, by name. It is empty if the job runs on this machine.
	nodes map[string]*tally

	// The number of cells of a lane.
	width int

	// The running attempts, by item index, and the same by item id.
	runs map[int]*span

	byID map[string]*span

	// Since when items wait for their next attempt, by index.
	waiting map[int]time.Duration

	// By how much the number of waiting items changes at the beginning of each column. A wait is counted once it
	// ends.
	changes [columns + 1]int

	queue  queue
	limits limits

	// What holds back starts, by its name, and what did so before.
	holding map[string]change
	held    map[string]*hold

	// The times in which something held back starts, of all heights.
	bands []rect
}

// hold is what has held back starts, maybe several times.
type hold struct {
	Text  string // what it said at first
	Times int
	Total time.Duration
}

// newPlot returns an empty plot for a job with this number of slots.
func newPlot(a *axis, workers int, kept bounds) *plot {
	p := &plot{
		job: view.New(), axis: a, kept: kept, length: max(a.length(), time.Millisecond), lanes: map[lane][]cell{},
		nodes: map[string]*tally{}, runs: map[int]*span{}, byID: map[string]*span{},
		waiting: map[int]time.Duration{}, holding: map[string]change{}, held: map[string]*hold{},
		width: min(laneCells, max(kept.cells/max(workers, 1), 40)),
	}
	p.queue.merger.cells, p.queue.verify.cells = make([]cell, p.width), make([]cell, p.width)
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
	bars []bar

	// What was done in each of the equal parts of the axis.
	cells []cell
}

// queue collects what is drawn of the merge queue.
type queue struct {
	merger, verify track

	// The most items that waited in each column.
	depths [columns]int

	// How many items have waited since the last change.
	depth int

	// The column of the last change.
	last int
}

// limits are how many agents ran at once and how often they started, and what limited both.
type limits struct {
	cols [columns]limitColumn

	// The column of the last record.
	filled int

	running int

	// How many attempts may run at a time; 0 while the slots of a fleet are not known.
	slots int

	// Starts in a second that are allowed, whatever their keys are; 0 if there is no limit, or the log does not
	// have it.
	rate float64

	// The rate of the adaptive limit.
	adapts float64

	// The rate of the workflow, for agents of all keys.
	fixed float64

	// All rates of the workflow in words, also those that are drawn nowhere.
	rates []string

	changes []change

	// Starts take turns, so that their rate is worth a chart.
	turns bool

	// The job adapts its concurrency, and has changed it.
	adapted bool
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
