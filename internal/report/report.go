// Package report writes a self-contained HTML report of a job.
//
// New reads the log twice into a Report, which WriteHTML renders. A plot collects what is drawn over time on an axis, and a chart is one
// drawing, made into an SVG element by the template page.html.
package report

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"iter"
	"math"
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
	Printed  func(events.AgentFailed) outputs.Tail        // the end of what the steps of an attempt have printed; nil: not known
	Label    func(id string, item json.RawMessage) string // what an item is called besides its id; "" for nothing
	Made     time.Time
}

// Report is the data of one HTML page.
type Report struct {
	Source
	Job         *view.Job
	Throughput  chart
	Slots       chart
	SummedUp    bool // there are too many attempts to draw each one
	Lengths     chart
	Groups      []group
	DeadLetters []letter
	MoreLetters int // beyond those that are listed
}

// Badge is the state of a job as people see it. A job whose items did not all succeed is never shown as one that completed.
type Badge struct {
	Text  string
	Class string // in Style
}

// BadgeOf returns the badge of a job in a state, of which left items have failed, were skipped or were rejected.
func BadgeOf(state string, left int) Badge {
	if state == "completed" && left > 0 {
		return Badge{"completed with failures", "left"}
	}
	return Badge{state, state}
}

// Badge returns the badge of the job.
func (r *Report) Badge() Badge {
	return BadgeOf(r.State, r.Metrics.Failed+r.Metrics.Skipped+r.Metrics.Rejected)
}

// group is a row of the table of failures.
type group struct {
	view.FailureGroup
	Printed *outputs.Tail // by its example; nil: nothing
}

// letter is a row of the table of dead letters.
type letter struct {
	ItemID, Label, Item, Type, Message string
	Failures                           int
	Eligible                           bool
}

const (
	lettersListed = 200
	groupsListed  = 50
	itemShown     = 300 // characters of the data of an item
	textShown     = 64 << 10
)

// New returns a report. It reads the log twice.
func New(s Source) (*Report, error) {
	r := &Report{Source: s, Job: view.New()}
	a := &axis{}
	if err := each(s.Records(), func(rec events.Record) { r.Job.Apply(rec); a.see(rec) }); err != nil {
		return nil, err
	}
	p := newPlot(a, r.Job.MaxParallel)
	if err := each(s.Records(), p.see); err != nil {
		return nil, err
	}
	p.finish()
	r.Throughput, r.Slots, r.SummedUp = p.throughput(), p.slots(r.Job.Periods()), p.many
	r.Lengths = lengths(r.Job.Durations.Cells())
	for _, g := range r.Job.Failures.Groups() {
		if len(r.Groups) == groupsListed {
			break
		}
		r.Groups = append(r.Groups, group{FailureGroup: g})
		if g.Example.Outputs != nil && s.Printed != nil {
			tail := s.Printed(g.Example.AgentFailed)
			r.Groups[len(r.Groups)-1].Printed = &tail
		}
	}
	r.Text = cut(r.Text, textShown)
	return r, r.list(s.Letters, s.Label)
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
		if len(r.DeadLetters) == lettersListed {
			r.MoreLetters++
			continue
		}
		l := letter{ItemID: e.ItemID, Label: cut(label(e.ItemID, e.Item), itemShown), Item: cut(string(e.Item), itemShown), Failures: e.FailureCount, Eligible: e.ReprocessEligible}
		if n := len(e.FailureHistory); n > 0 {
			l.Type, l.Message = string(e.FailureHistory[n-1].ErrorType), cut(e.FailureHistory[n-1].Message, itemShown)
		}
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

// Style is the style sheet of the report, which the pages of package ui use too.
//
//go:embed page.css
var Style string

//go:embed page.html
var page string

// WriteHTML writes the report as one HTML page.
func (r *Report) WriteHTML(w io.Writer) error {
	return templates().Execute(w, r)
}

func templates() *template.Template {
	t, err := template.New("page").Funcs(functions()).Parse(page)
	if err != nil {
		panic("BUG: the page is no template: " + err.Error())
	}
	return t
}

// TimelineSVG returns a timeline as an SVG element, for a page that uses Style.
func TimelineSVG(t view.Timeline) template.HTML {
	var b strings.Builder
	if err := templates().ExecuteTemplate(&b, "chart", timeline(t)); err != nil {
		panic("BUG: a chart cannot be drawn: " + err.Error())
	}
	return template.HTML(b.String()) // escaped by the template
}

// functions returns the functions of the template.
func functions() template.FuncMap {
	return template.FuncMap{
		"style":   func() template.CSS { return template.CSS(Style) },
		"took":    func(d time.Duration) string { return roughly(d) },
		"exact":   func(d time.Duration) string { return duration.Format(d.Round(time.Millisecond)) },
		"moment":  func(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") },
		"number":  Number,
		"percent": func(f float64) string { return fmt.Sprintf("%.1f %%", 100*f) },
		"below":   func(h, more float64) float64 { return h + more },
		"widen":   widen,
		"short":   func(f float64) string { return fmt.Sprintf("%.1f", math.Round(10*f)/10) },
	}
}

// widen prints the width of a rectangle at x, rounded so that it ends exactly where its neighbour begins.
func widen(x, w float64) string {
	return fmt.Sprintf("%.1f", max(math.Round(10*(x+w))-math.Round(10*x), 1)/10)
}

// Number prints n with its digits in groups of three.
func Number(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}
