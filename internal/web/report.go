package web

import (
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/dlq"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/outputs"
	"prodigy/internal/view"
)

// Source is the data that a report is made from.
type Source struct {
	job.Summary
	Version string

	// The workflow file.
	Text string

	// The records of the log, from its beginning. They are read twice.
	Records iter.Seq2[events.Record, error]

	Letters iter.Seq2[dlq.Entry, error]
	Made    time.Time

	// Advice for the failures.
	Advice []string

	// Returns what an item is called besides its id, or "".
	Label func(id string, item json.RawMessage) string

	// Returns the same of an item by its index.
	Named func(index int) string

	// Returns the end of what an attempt or a step has printed.
	Printed func(outputs.Query) outputs.Tail
}

// report is the data of a report.
type report struct {
	Source
	charts
	Told        told
	Job         *view.Job
	DeadLetters []letterRow

	// The number of dead letters beyond those that are listed.
	MoreLetters int
}

// letterRow is a row of the table of dead letters.
type letterRow struct {
	ItemID, Label, Item, Type, Message string
	Stdout, Stderr                     string // the ends of what the last attempt printed
	Failures                           int
	Eligible                           bool
}

// Report returns the report of a job: one HTML page that needs nothing else.
func Report(s Source) ([]byte, error) {
	var now time.Time
	if s.State == jobs.Running {
		now = s.Made
	}
	c, err := draw(s.Records, now, reportKept)
	if err != nil {
		return nil, err
	}
	s.Text = cut(s.Text, textShown)
	r := &report{Source: s, Job: c.Job, charts: c, Told: told{s.Job, s.State, s.Reason, s.Advice, c.Job}}
	if err := r.list(); err != nil {
		return nil, err
	}
	return render("report.html", r), nil
}

// LabelOf returns what an item is called besides its id.
func (r *report) LabelOf(index int) string { return cut(r.Named(index), itemShown) }

// Groups returns the largest groups of failures.
func (r *report) Groups() []view.FailureGroup {
	all := r.Job.Failures.Groups()
	return check.First(all, groupsListed)
}

// PrintedBy returns the end of what a step has printed, or nil.
func (r *report) PrintedBy(s view.Step) *outputs.Tail {
	return r.printed(s.Outputs, outputs.Query{Step: s.Name})
}

// PrintedIn returns the end of what the example of a group of failures has printed, or nil.
func (r *report) PrintedIn(g view.FailureGroup) *outputs.Tail {
	return r.printed(g.Example.Outputs, outputs.Query{ItemID: g.Example.ItemID, Attempt: g.Example.Attempt})
}

// printed returns the end of an output that the log names, or nil if there is none.
func (r *report) printed(at *outputs.Span, q outputs.Query) *outputs.Tail {
	if at == nil {
		return nil
	}
	q.Span = *at
	tail := r.Printed(q)
	return &tail
}

// list lists the dead letters.
func (r *report) list() error {
	for e, err := range r.Letters {
		if err != nil {
			return fmt.Errorf("list the dead letters: %w", err)
		}
		if len(r.DeadLetters) == lettersInReport {
			r.MoreLetters++
			continue
		}
		last := e.Last()
		r.DeadLetters = append(r.DeadLetters, letterRow{
			ItemID: e.ItemID, Label: cut(r.Label(e.ItemID, e.Item), itemShown), Item: cut(string(e.Item), itemShown),
			Type: string(last.ErrorType), Message: cut(last.Message, itemShown),
			Stdout: events.ClipTail(last.StdoutTail, tailShown), Stderr: events.ClipTail(last.StderrTail, tailShown),
			Failures: e.FailureCount, Eligible: e.ReprocessEligible,
		})
	}
	return nil
}

// report sends the report of a job. It may have styles of its own, as the one file that it is, and nothing else.
func (s *Server) report(w http.ResponseWriter, _ *http.Request, place jobs.Job) error {
	made, err := s.Data.Report(place)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	_, _ = w.Write(made)
	return nil
}
