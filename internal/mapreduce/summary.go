package mapreduce

import (
	"errors"
	"os"
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/workflow"
)

// Summary is what the log of a job says of it.
type Summary struct {
	Job      jobs.Job
	Workflow string
	Mode     string
	State    string // running, completed, failed, paused; killed: it ended without a word
	Reason   string
	Started  time.Time
	Duration time.Duration // of all its runs, without the time between them
	Metrics  errorpolicy.Metrics
}

// MayHaveCompleted tells whether the log of a job ends as that of a completed one does. It reads its end only: when it says no, there is no
// need to fold a log that is about to be replayed.
func MayHaveCompleted(place jobs.Job) (bool, error) {
	for line, err := range events.ReadLines(place.EventsDir(), events.Query{Limit: 1}) {
		if errors.Is(err, events.ErrTorn) {
			return false, nil
		}
		var last events.Record
		if err == nil {
			last, err = events.Decode(line)
		}
		if err != nil {
			return false, unusable(err)
		}
		switch last.Event.(type) {
		case events.JobCompleted, events.DLQItemRemoved, events.DLQItemsEvicted: // dead letters are thrown away between the runs
			return true, nil
		}
	}
	return false, nil
}

// Summarize folds the log of a job. It may be running.
func Summarize(place jobs.Job) (Summary, error) {
	return SummarizeAnd(place, func(events.Record) {})
}

// SummarizeAnd is Summarize for those who want to see the records too.
func SummarizeAnd(place jobs.Job, see func(events.Record)) (Summary, error) {
	meta, err := place.ReadMeta()
	if err != nil {
		return Summary{}, unusable(err)
	}
	s := newState(recordedPolicy(place, meta))
	for r, err := range events.Read(place.EventsDir()) {
		if errors.Is(err, events.ErrTorn) {
			break
		}
		if err != nil {
			return Summary{}, unusable(err)
		}
		s.apply(r)
		see(r)
	}
	sum := Summary{
		Job: place, Workflow: meta.Workflow, Mode: meta.Mode, State: string(s.ended), Reason: s.reason, Started: meta.Started,
		Metrics: s.policy.Metrics(), Duration: s.duration(s.last),
	}
	if s.ended == "" {
		sum.State = "killed"
	}
	if place.Running() {
		sum.State = "running"
	}
	return sum, nil
}

// recordedPolicy returns the policy a job was run with. A workflow that cannot be read any more leaves the counts right all the same.
func recordedPolicy(place jobs.Job, meta jobs.Meta) errorpolicy.Policy {
	source, err := os.ReadFile(place.WorkflowFile())
	if err != nil {
		return errorpolicy.Policy{}
	}
	w, err := workflow.Parse(place.WorkflowFile(), source, workflow.ParseOptions{MaxDelay: time.Duration(meta.MaxDelayMS) * time.Millisecond})
	if err != nil {
		return errorpolicy.Policy{}
	}
	return w.ErrorPolicy
}
