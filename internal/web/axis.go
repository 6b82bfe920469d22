package web

import (
	"slices"
	"time"

	"prodigy/internal/events"
)

// axis is the time axis of a job. It leaves out the time between runs, so that a night between a stop and a
// resume takes no space.
type axis struct {
	runs []run
}

// run is the time of one run of the job.
type run struct {
	From, To time.Time
	before   time.Duration // total length of the earlier runs
}

// see extends the axis by a record. Records must come in the order of the log.
func (a *axis) see(r events.Record) {
	_, resumed := r.Event.(events.JobResumed)
	if events.BetweenRuns(r.Event) {
		return
	}
	if len(a.runs) == 0 || resumed {
		a.runs = append(a.runs, run{From: r.Time, To: r.Time, before: a.length()})
		return
	}
	if last := &a.runs[len(a.runs)-1]; r.Time.After(last.To) {
		last.To = r.Time
	}
}

// extend makes the last run last until now, since it goes on.
func (a *axis) extend(now time.Time) {
	if n := len(a.runs); n > 0 && now.After(a.runs[n-1].To) {
		a.runs[n-1].To = now
	}
}

// length returns the total length of all runs.
func (a *axis) length() time.Duration {
	if len(a.runs) == 0 {
		return 0
	}
	last := a.runs[len(a.runs)-1]
	return last.before + last.To.Sub(last.From)
}

// at returns how long the job had run at time t. A time between two runs maps to the end of the first.
func (a *axis) at(t time.Time) time.Duration {
	for _, r := range slices.Backward(a.runs) {
		if !t.Before(r.From) {
			return r.before + min(t.Sub(r.From), r.To.Sub(r.From))
		}
	}
	return 0
}
