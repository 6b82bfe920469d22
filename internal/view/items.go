package view

import (
	"iter"
	"strings"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/retry"
)

// StatusOf returns the status of the item with this index. It is Pending if the item is not known.
func (j *Job) StatusOf(index int) Status {
	if _, ok := j.running[index]; ok {
		return InFlight
	}
	if _, ok := j.waiting[index]; ok {
		return Waiting
	}
	if _, ok := j.merging[index]; ok {
		return Merging
	}
	return StatusOf(j.status.At(index))
}

// Search finds items by status and by the text of their last failure. Its memory is a byte for each item, and
// no text of them.
type Search struct {
	Job *Job

	status  Status // empty: any
	failure string // in lower case; empty means any
	matches []bool // the last failure has that text, by item index
}

// SearchItems returns the items whose status is the given one, if it is not empty, and whose last failure
// contains the text, in any case of its letters. Running reports whether the job is being run: else no item
// is.
func SearchItems(records iter.Seq2[events.Record, error], running bool, status Status, failure string) (*Search,
	error,
) {
	s := &Search{Job: New(), status: status, failure: strings.ToLower(failure)}
	err := events.Each(records, func(r events.Record) {
		s.Job.Apply(r)
		if end, ok := events.EndOf(r.Event); ok && !end.How.GivenBack() {
			failure, failed := r.Event.(events.AgentFailed)
			s.match(end.Index, failed && s.failure != "" && hasText(failure, s.failure))
		}
	})
	if !running {
		s.Job.halt()
	}
	return s, err
}

// hasText reports whether a failure has the text, which is in lower case, in its type and message or in its signature.
func hasText(e events.AgentFailed, text string) bool {
	return strings.Contains(strings.ToLower(string(e.ErrorType)+": "+e.Error), text) ||
		strings.Contains(strings.ToLower(e.ErrorSignature), text)
}

// match notes whether the last failure of an item has the text. The list grows only up to the last item that has.
func (s *Search) match(index int, matches bool) {
	if s.failure == "" || !matches && index >= len(s.matches) {
		return
	}
	for len(s.matches) <= index {
		s.matches = append(s.matches, false)
	}
	s.matches[index] = matches
}

// Found reports whether the item with this index is one of those that are searched for.
func (s *Search) Found(index int) bool {
	if s.failure != "" && (index >= len(s.matches) || !s.matches[index]) {
		return false
	}
	return s.status == "" || s.Job.StatusOf(index) == s.status
}

// Course is what the log says about an item: its last attempt and failure.
type Course struct {
	// The number of the last attempt; 0 if none has started.
	Attempts int

	// When the last attempt began or ended.
	Last time.Time

	// How long the last attempt took that has ended.
	Duration time.Duration

	// The last failure, if the item has not succeeded since.
	Failure string

	Type retry.Type // of the failure

	// The step that failed.
	Step string
}

// Courses returns what records, which may be those about some items only, say about the items, by their indexes.
func Courses(records iter.Seq2[events.Record, error]) (map[int]Course, error) {
	found := map[int]Course{}
	return found, events.Each(records, func(r events.Record) {
		if e, begins := r.Event.(events.AgentStarted); begins {
			c := found[e.ItemIndex]
			c.Attempts, c.Last = e.Attempt, r.Time
			found[e.ItemIndex] = c
		}
		if end, ok := events.EndOf(r.Event); ok && !end.How.GivenBack() {
			c := Course{Last: r.Time, Duration: end.Took, Failure: end.Error, Type: end.Type, Step: end.Step}
			if end.How != events.Reused {
				c.Attempts = found[end.Index].Attempts
			}
			found[end.Index] = c
		}
	})
}
