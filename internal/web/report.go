package web

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"

	"prodigy/internal/dlq"
	"prodigy/internal/duration"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/outputs"
	"prodigy/internal/view"
)

// Source is the data that a report is made from.
type Source struct {
	JobID    string
	Workflow string // its name
	Mode     string
	State    string
	Reason   string
	Started  time.Time
	Duration time.Duration
	Metrics  errorpolicy.Metrics
	Version  string
	Text     string                                 // of the workflow file
	Records  func() iter.Seq2[events.Record, error] // of the log, from its beginning; called twice
	Letters  iter.Seq2[dlq.Entry, error]
	// The end of what an attempt or a step has printed, or nil if that is not known.
	Printed func(outputs.Query) outputs.Tail
	Named   func(index int) string                       // as Label, of an item by its index, if not nil
	Label   func(id string, item json.RawMessage) string // what an item is called besides its id; "" for nothing
	Made    time.Time
}

// Report is the data of one HTML page.
type Report struct {
	Source
	charts
	Job         *view.Job
	Steps       []stepRow
	Groups      []group
	Slowest     []slowAttempt
	Dearest     []dearItem
	DeadLetters []letterRow
	MoreLetters int // beyond those that are listed
}

// charts are the drawings of a job.
type charts struct {
	Throughput chart
	Slots      chart
	SummedUp   bool // there are too many attempts to draw each one
	Lengths    chart
	Durations  *duration.Histogram
	Merges     *merges // nil: the job has no workspaces
	Limits     []chart // of what ran at once, and of starts; nil: nothing limited them that changed
	Breakers   *chart  // nil: no breaker of a key has opened
	Rates      string  // that the workflow allows
	Shut       int     // breakers that are not drawn
}

// slowAttempt is a row of the table of the slowest attempts.
type slowAttempt struct {
	view.Attempt
	Label string
}

// Where names the slot of the attempt: on a fleet, that of the worker which ran it.
func (a slowAttempt) Where() string {
	switch {
	case a.Node != "":
		return fmt.Sprintf("%s slot %d", a.Node, a.Slot)
	case a.Fleet:
		return "-"
	}
	return strconv.Itoa(a.Worker)
}

// dearItem is a row of the table of the dearest items.
type dearItem struct {
	view.ItemCost
	Label string
}

// stepRow is a row of the table of steps.
type stepRow struct {
	view.Step
	Printed *outputs.Tail // nil: nothing
}

// Badge returns the badge of the job.
func (r *Report) Badge() badge {
	return badgeOf(r.State, r.Metrics.Failed+r.Metrics.Rejected, r.Metrics.Skipped)
}

// group is a row of the table of failures.
type group struct {
	view.FailureGroup
	Label   string        // of its example
	Printed *outputs.Tail // by its example; nil: nothing
}

// letterRow is a row of the table of dead letters.
type letterRow struct {
	ItemID, Label, Item, Type, Message string
	Stdout, Stderr                     string // the ends of what the last attempt printed
	Failures                           int
	Eligible                           bool
}

const (
	lettersInReport = 200
	groupsListed    = 50
	itemShown       = 300 // characters of the data of an item
	tailShown       = 1 << 10
	textShown       = 64 << 10
)

// New returns a report. It reads the log twice.
func New(s Source) (*Report, error) {
	var now time.Time
	if s.State == string(view.Running) {
		now = s.Made
	}
	job, c, err := draw(s.Records, now, plotKept)
	if err != nil {
		return nil, err
	}
	r := &Report{Source: s, Job: job, charts: c}
	named := func(index int) string {
		if s.Named == nil {
			return ""
		}
		return cut(s.Named(index), itemShown)
	}
	for _, a := range job.Slowest {
		r.Slowest = append(r.Slowest, slowAttempt{a, named(a.Index)})
	}
	for _, c := range job.Dearest() {
		r.Dearest = append(r.Dearest, dearItem{c, named(c.Index)})
	}
	for _, step := range job.Steps() {
		row := stepRow{Step: step}
		if step.Outputs != nil && s.Printed != nil {
			tail := s.Printed(outputs.Query{Step: step.Name, Span: *step.Outputs})
			row.Printed = &tail
		}
		r.Steps = append(r.Steps, row)
	}
	for _, g := range r.Job.Failures.Groups() {
		if len(r.Groups) == groupsListed {
			break
		}
		r.Groups = append(r.Groups, group{FailureGroup: g, Label: named(g.Example.ItemIndex)})
		if g.Example.Outputs != nil && s.Printed != nil {
			tail := s.Printed(outputs.Query{
				ItemID: g.Example.ItemID, Attempt: g.Example.Attempt,
				Span: *g.Example.Outputs,
			})
			r.Groups[len(r.Groups)-1].Printed = &tail
		}
	}
	r.Text = cut(r.Text, textShown)
	return r, r.list(s.Letters, s.Label)
}

// draw folds the log and draws it. It reads the log twice. Now is the time if the job is running, else zero.
func draw(records func() iter.Seq2[events.Record, error], now time.Time, kept bounds) (*view.Job, charts, error) {
	job, a := view.New(), &axis{}
	if err := each(records(), func(rec events.Record) { job.Apply(rec); a.see(rec) }); err != nil {
		return nil, charts{}, err
	}
	a.extend(now)
	p := newPlot(a, job.MaxParallel, kept)
	if err := each(records(), p.see); err != nil {
		return nil, charts{}, err
	}
	p.finish(!now.IsZero())
	breakers, more := p.breakers(job.Periods())
	return job, charts{
		Limits: p.limitCharts(), Rates: strings.Join(p.limits.rates, ", "), Breakers: breakers, Shut: more,
		Merges:     mergesOf(job, p, kept.rows),
		Throughput: p.throughput(), Slots: p.slots(job.Periods(),
			job.Pauses()), SummedUp: p.many, Lengths: lengths(job.Durations.Cells()), Durations: &job.Durations,
	}, nil
}

// Draw returns the view of a job and its charts, for a page that is made again and again. It reads the log twice. Now is the
// time if the job is running, else zero.
func Draw(records func() iter.Seq2[events.Record, error], now time.Time) (*view.Job, template.HTML, error) {
	job, c, err := draw(records, now, pageKept)
	if err != nil {
		return nil, "", err
	}
	return job, template.HTML(render("charts", c)), nil // escaped by the template
}

// each calls do for each record. A torn last line ends the log without an error.
func each(records iter.Seq2[events.Record, error], do func(events.Record)) error {
	for rec, err := range records {
		if errors.Is(err, events.ErrTorn) {
			return nil
		}
		if err != nil {
			return err
		}
		do(rec)
	}
	return nil
}

func (r *Report) list(letters iter.Seq2[dlq.Entry, error], label func(id string, item json.RawMessage) string) error {
	for e, err := range letters {
		if err != nil {
			return fmt.Errorf("list the dead letters: %w", err)
		}
		if len(r.DeadLetters) == lettersInReport {
			r.MoreLetters++
			continue
		}
		l := letterRow{
			ItemID: e.ItemID, Label: cut(label(e.ItemID, e.Item), itemShown),
			Item: cut(string(e.Item), itemShown), Failures: e.FailureCount, Eligible: e.ReprocessEligible,
		}
		last := e.Last()
		l.Type, l.Message = string(last.ErrorType), cut(last.Message, itemShown)
		l.Stdout, l.Stderr = events.ClipTail(last.StdoutTail, tailShown), events.ClipTail(last.StderrTail, tailShown)
		r.DeadLetters = append(r.DeadLetters, l)
	}
	return nil
}

// cut shortens s to n bytes, without splitting a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return events.Clip(s, n) + "…"
}

// WriteHTML writes the report as one HTML page.
func (r *Report) WriteHTML(w io.Writer) error {
	_, err := w.Write(render("report.html", r))
	return err
}
