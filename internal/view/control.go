package view

import (
	"fmt"
	"time"

	"prodigy/internal/duration"
	"prodigy/internal/events"
)

// Hold is a pause that a person asked for, which lasts until the job is continued or resumed.
type Hold struct {
	By    string
	Since time.Time
}

// Words says who has paused the job and since when.
func (h Hold) Words(now time.Time) string {
	return fmt.Sprintf("by %s for %s, since %s", h.By, duration.Format(max(0,
		now.Sub(h.Since)).Truncate(time.Second)), h.Since.Local().Format(time.TimeOnly))
}

// retryNow makes due what waits for its next attempt or try.
func (j *Job) retryNow(now time.Time, e events.RetryNowRequested) {
	for id, a := range j.byID {
		if e.Names(id) && a.Due.After(now) {
			a.Due = now
		}
	}
	for index, due := range j.waiting.due {
		if due.After(now) && e.Names(j.waiting.ids[index]) {
			j.waiting.add(index, now)
		}
	}
	if last := &j.Retried.Last; last.Due.After(now) && e.Names(last.ItemID) {
		last.Due = now
	}
}
