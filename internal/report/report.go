// Package report makes one page of a job that people can mail: everything is in the file, and nothing is fetched.
package report

import (
	_ "embed"
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
	"prodigy/internal/view"
)

// Source is what a report is made from.
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
	Made     time.Time
}

// Report is a page, filled in.
type Report struct {
	Source
	Job         *view.Job
	Throughput  chart
	Slots       chart
	SummedUp    bool // the attempts are too many to be drawn one by one
	Lengths     chart
	Groups      []view.FailureGroup
	DeadLetters []letter
	MoreLetters int // beyond those that are listed
}

// letter is a row of the table of dead letters.
type letter struct {
	ItemID, Item, Type, Message string
	Failures                    int
	Eligible                    bool
}

const (
	lettersListed = 200
	groupsListed  = 50
	itemShown     = 300 // characters of the data of an item
	textShown     = 64 << 10
)

// New reads the log twice and fills in the page.
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
	r.Groups = r.Job.Failures.Groups()
	r.Groups = r.Groups[:min(len(r.Groups), groupsListed)]
	r.Text = cut(r.Text, textShown)
	return r, r.list(s.Letters)
}

// each calls do for the records up to a torn end.
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

func (r *Report) list(letters iter.Seq2[dlq.Entry, error]) error {
	for e, err := range letters {
		if err != nil {
			return fmt.Errorf("list the dead letters: %w", err)
		}
		if len(r.DeadLetters) == lettersListed {
			r.MoreLetters++
			continue
		}
		l := letter{ItemID: e.ItemID, Item: cut(string(e.Item), itemShown), Failures: e.FailureCount, Eligible: e.ReprocessEligible}
		if n := len(e.FailureHistory); n > 0 {
			l.Type, l.Message = string(e.FailureHistory[n-1].ErrorType), cut(e.FailureHistory[n-1].Message, itemShown)
		}
		r.DeadLetters = append(r.DeadLetters, l)
	}
	return nil
}

// cut shortens s to n bytes, on a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return events.Clip(s, n) + "…"
}

// Style is the style sheet of the page, for other pages that show the same things.
//
//go:embed page.css
var Style string

//go:embed page.html
var page string

// WriteHTML writes the page.
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

// TimelineSVG draws a timeline for a page that has Style.
func TimelineSVG(t view.Timeline) template.HTML {
	var b strings.Builder
	if err := templates().ExecuteTemplate(&b, "chart", timeline(t)); err != nil {
		panic("BUG: a chart cannot be drawn: " + err.Error())
	}
	return template.HTML(b.String()) // what the template has escaped
}

// functions are what the page calls.
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

// widen prints the width of a rectangle that begins at x so that it ends where its neighbour begins, both rounded.
func widen(x, w float64) string {
	return fmt.Sprintf("%.1f", max(math.Round(10*(x+w))-math.Round(10*x), 1)/10)
}

// Number groups the digits of n by threes.
func Number(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}
