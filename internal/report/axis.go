package report

import (
	"time"

	"prodigy/internal/events"
)

// axis is the time of a job without the time between its runs, so that a night between a stop and a resume takes no room.
type axis struct {
	runs []run
}

// run is a time in which a process worked on the job.
type run struct {
	From, To time.Time
	before   time.Duration // that the runs before it took
}

// see extends the axis by a record; they come in the order of the log.
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

// length is how long all the runs took.
func (a *axis) length() time.Duration {
	if len(a.runs) == 0 {
		return 0
	}
	last := a.runs[len(a.runs)-1]
	return last.before + last.To.Sub(last.From)
}

// at returns how long the job had run at t. Of a time between two runs it is the end of the first.
func (a *axis) at(t time.Time) time.Duration {
	for i := len(a.runs) - 1; i >= 0; i-- {
		if r := a.runs[i]; !t.Before(r.From) {
			return r.before + min(t.Sub(r.From), r.To.Sub(r.From))
		}
	}
	return 0
}

// ends returns where, on the axis, each run but the last ended.
func (a *axis) ends() []time.Duration {
	var list []time.Duration
	for i := 1; i < len(a.runs); i++ {
		list = append(list, a.runs[i].before)
	}
	return list
}
