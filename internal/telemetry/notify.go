package telemetry

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/rawjson"
	"prodigy/internal/term"
	"prodigy/internal/workflow"
)

// Bounds of a message.
const (
	maxEvents = 20  // that a message holds; more are counted
	maxText   = 300 // characters of an error in a text
)

// Message is what a receiver gets, as JSON.
type Message struct {
	ID       string                  `json:"id"` // the same when the message is sent again
	JobID    string                  `json:"job_id"`
	Workflow string                  `json:"workflow"`
	Time     time.Time               `json:"time"` // of the last event
	Text     string                  `json:"text"` // for people
	Counts   map[workflow.Moment]int `json:"counts"`

	// The first ones, as `prodigy events ls --output json` prints them.
	Events []json.RawMessage `json:"events"`

	More    int                  `json:"more,omitempty"` // events that Events does not have
	Metrics *errorpolicy.Metrics `json:"metrics,omitempty"`
}

// Target is a receiver with what it takes to send it something.
type Target struct {
	workflow.Receiver
	Sender Sender
}

// Sender sends a message once.
type Sender interface {
	// Send returns a *refusedError if another try would end alike, or the receiver has said when to try again.
	Send(ctx context.Context, id string, body []byte) error

	// String names the receiver, without what may be secret.
	String() string
}

// untold is what a receiver was not told by the runs before.
type untold struct {
	again   gathered // what is in the message that the last run was sending when it died
	earlier gathered // what came after it
}

// untoldBefore gathers, for each target, what was recorded before a record and not told.
func untoldBefore(job jobs.Job, book *journal, targets []Target, before int64) ([]untold, error) {
	from, all := make([]mark, len(targets)), make([]untold, len(targets))
	for i := range from {
		from[i] = book.marks[i]
		all[i].again.id = from[i].sending.ID
	}
	for record, err := range events.Read(job.EventsDir()) {
		if err != nil || record.Seq >= before {
			return all, err
		}
		for i, t := range targets {
			switch {
			case record.Seq <= from[i].told:
			case record.Seq <= from[i].sending.To:
				all[i].again.add(record, t.On)
			default:
				all[i].earlier.add(record, t.On)
			}
		}
	}
	return all, nil
}

// gathered is what a message is made of.
type gathered struct {
	// The ID of the message, if it may have been sent before. By default it is made of the last record.
	id string

	counts map[workflow.Moment]int

	// The first maxEvents events, as lines of the log.
	events []json.RawMessage

	// The same events in sentences, for people.
	lines []string

	// How many events there are, also those that events does not have.
	total int

	from, to int64 // the records of the first and the last event
	time     time.Time

	// The job has ended, or waits for somebody: the message does not wait for others to join it.
	end bool

	metrics *errorpolicy.Metrics

	// The last attempt that failed. A dead letter follows it, which has no cause of its own.
	failed events.Record
}

// add gathers a record that is one of the moments, and reports whether it is.
func (g *gathered) add(r events.Record, on []workflow.Moment) bool {
	if _, is := r.Event.(events.AgentFailed); is {
		g.failed = r
		return false
	}
	all := momentsOf(r.Event)
	i := slices.IndexFunc(all, func(m workflow.Moment) bool { return slices.Contains(on, m) })
	if i < 0 {
		return false
	}
	if g.counts == nil {
		g.counts = map[workflow.Moment]int{}
		g.from = r.Seq
	}
	g.counts[all[i]]++
	g.total++
	g.to, g.time = r.Seq, r.Time
	if len(g.events) < maxEvents {
		if line, err := events.Encode(r); err == nil {
			g.events = append(g.events, json.RawMessage(strings.TrimSpace(string(line))))
			g.lines = append(g.lines, g.line(r))
		}
	}
	if end, ok := events.RunEndOf(r.Event); ok {
		g.end, g.metrics = true, cmp.Or(end.Metrics, g.metrics)
	}
	return true
}

// momentsOf returns the moments that an event is. A receiver is told the first of them that it wants.
func momentsOf(e events.Event) []workflow.Moment {
	if end, ok := events.RunEndOf(e); ok {
		switch end.State {
		case jobs.Stopped:
			return []workflow.Moment{workflow.OnStopped, workflow.OnPaused}
		case jobs.Failed:
			return []workflow.Moment{workflow.OnFailed, workflow.OnDone}
		case jobs.Completed:
			if m := end.Metrics; m != nil && m.DeadLetters() > 0 {
				return []workflow.Moment{workflow.OnDone, workflow.OnFailures}
			}
		}
		return []workflow.Moment{workflow.OnDone}
	}
	switch e.(type) {
	case events.DLQItemAdded:
		return []workflow.Moment{workflow.OnDeadLetter}
	case events.CircuitOpen:
		return []workflow.Moment{workflow.OnBreakerOpen}
	case events.BudgetReached:
		return []workflow.Moment{workflow.OnBudget}
	case events.QuotaPaused, events.PauseRequested:
		return []workflow.Moment{workflow.OnPaused}
	}
	return nil
}

// line says an event in one line.
func (g *gathered) line(r events.Record) string {
	if e, ok := r.Event.(events.DLQItemAdded); ok {
		text := "dead letter " + e.ItemID
		if f, is := g.failed.Event.(events.AgentFailed); is && f.ItemID == e.ItemID {
			text += ": " + term.Shorten(f.Error, maxText)
		}
		return text
	}
	s := events.Say(r)
	s.Who, s.Text = term.Shorten(s.Who, maxText), term.Shorten(s.Text, maxText)
	return s.Line()
}

// encode makes the message of what was gathered, to the receiver with a number, and its line in the journal. It has the
// same ID when the same events are gathered again.
func (g *gathered) encode(job jobs.Job, receiver int, workflow string) (line, []byte, error) {
	var text strings.Builder
	text.WriteString(workflow + " (" + job.ID + ")")
	if g.total == 1 {
		text.WriteString(" " + g.lines[0])
	} else {
		for _, line := range g.lines {
			text.WriteString("\n- " + line)
		}
		text.WriteString(check.Some("\n- and %d more", g.total-len(g.lines)))
	}
	id := cmp.Or(g.id, fmt.Sprintf("%s-%d-%d", job.ID, receiver, g.to))
	data, err := rawjson.Encode(Message{
		ID: id, JobID: job.ID, Workflow: workflow, Time: g.time, Text: text.String(), Counts: g.counts,
		Events: g.events, More: g.total - len(g.events), Metrics: g.metrics,
	})
	return line{Receiver: receiver, ID: id, State: sending, From: g.from, To: g.to}, data, err
}

// refusedError is a failure about which it is known when another try may mend it.
type refusedError struct {
	error
	after time.Duration // 0: never
}
