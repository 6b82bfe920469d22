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

	Type      retry.Type // of the failure
	Signature string     // the same

	// The step that failed.
	Step string
}

// Listing has the items of a job: their statuses, which the Job knows, and their courses.
type Listing struct {
	Job     *Job
	courses map[int]Course
}

// ListItems lists the items of a job. Running reports whether the job is being run: else no item is.
func ListItems(records iter.Seq2[events.Record, error], running bool) (*Listing, error) {
	l := &Listing{New(), map[int]Course{}}
	err := events.Each(records, func(r events.Record) {
		l.Job.Apply(r)
		if e, begins := r.Event.(events.AgentStarted); begins {
			c := l.courses[e.ItemIndex]
			c.Attempts, c.Last = e.Attempt, r.Time
			l.courses[e.ItemIndex] = c
		}
		if end, ok := events.EndOf(r.Event); ok && !end.How.GivenBack() {
			failure, _ := r.Event.(events.AgentFailed)
			c := Course{
				Last: r.Time, Duration: end.Took, Failure: end.Error, Type: end.Type, Step: end.Step,
				Signature: failure.ErrorSignature,
			}
			if end.How != events.Reused {
				c.Attempts = l.courses[end.Index].Attempts
			}
			l.courses[end.Index] = c
		}
	})
	if !running {
		l.Job.halt()
	}
	return l, err
}

// Course returns the course of the item with this index. It is zero if nothing has happened to the item.
func (l *Listing) Course(index int) Course { return l.courses[index] }

// Fits reports whether the item with this index has the status, if that is not empty, and its last failure contains the
// text, in any case of its letters: in its type and message, or in its signature.
func (l *Listing) Fits(index int, status Status, failure string) bool {
	if status != "" && l.Job.StatusOf(index) != status {
		return false
	}
	c := l.courses[index]
	text := strings.ToLower(string(c.Type) + ": " + c.Failure + "\n" + c.Signature)
	return failure == "" || c.Type != "" && strings.Contains(text, strings.ToLower(failure))
}
