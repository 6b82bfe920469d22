package job

import (
	"cmp"
	"errors"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/limits"
	"prodigy/internal/workflow"
)

// Summary is the state of a job according to its log.
type Summary struct {
	Job      jobs.Job
	Workflow string
	Mode     string
	Dir      string // that it was started in

	State   jobs.State
	Reason  string
	Started time.Time

	// Duration is that of all runs, without the time between them.
	Duration time.Duration
	Metrics  errorpolicy.Metrics

	// Spent is what AI agents have used.
	Spent limit.Total

	// Paused are what the agents of a job wait for that has not completed.
	Paused []events.QuotaPaused

	// Hold is nil unless the job is running and paused.
	Hold *Hold

	// Ending is that of a running job.
	Ending events.Ending

	// ReduceStale and ReduceHeld are those of a completed job: see mapreduce.Result.
	ReduceStale, ReduceHeld bool
}

// Hold is a pause of a running job that somebody asked for.
type Hold = limits.Hold

// StateShown returns the state for people, who are to see at once that a job has completed but not all of its
// items have succeeded.
func (s Summary) StateShown() string {
	shown := string(s.State)
	if s.State == jobs.Completed && s.Metrics.DeadLetters() > 0 {
		shown += " with failures"
	}
	shown = cmp.Or(s.Ending.Words(), shown)
	if s.ReduceHeld {
		shown += ", reduce not run"
	}
	if s.Hold != nil && s.Ending.How == "" {
		shown += ", paused by " + s.Hold.By
	}
	if s.ReduceStale {
		shown += ", reduce stale"
	}
	return shown
}

// Last is what the last record of the log of a job says, but for those that people cause between its runs. It is read
// without the others, so that a log that is about to be replayed need not be folded before.
type Last struct {
	// State is how the last run ended. It is empty if the log does not say.
	State jobs.State

	// Unproven means that too few items of a canary or of a step of a ramp have succeeded: somebody has to accept that
	// before the job is resumed.
	Unproven bool

	// InputGone means that the rest of the items cannot be read any more, so that a resume can do nothing.
	InputGone bool
}

// LastOf reads what the last record of a job says.
func LastOf(place jobs.Job) (Last, error) {
	word, err := lastWord(place.EventsDir())
	if err != nil {
		return Last{}, Unusable(place, err)
	}
	end, _ := events.RunEndOf(word)
	last := Last{State: end.State}
	switch e := word.(type) {
	case events.CancelRequested:
		last.State = jobs.Cancelled
	case events.RolloutHeld:
		last.Unproven = true
	case events.JobPaused:
		last.Unproven = e.Unproven
	case events.JobFailed:
		last.InputGone = e.InputGone
	}
	return last, nil
}

// Summarize returns the summary of a job, which may be running. If the job has ended, only the last record is
// read, which has all of it; damage before that is not noticed. Otherwise the log is folded from the last
// checkpoint on.
func Summarize(place jobs.Job) (Summary, error) { return SummarizeAnd(place, nil) }

// SummarizeAnd is Summarize, and calls see, if it is not nil, with each record. Then it reads the whole log, so damage
// anywhere is an error.
func SummarizeAnd(place jobs.Job, see func(events.Record)) (Summary, error) {
	meta, err := place.ReadMeta()
	if err != nil {
		return Summary{}, Unusable(place, err)
	}
	if see == nil && !place.Running() {
		last, err := lastWord(place.EventsDir())
		if err != nil {
			return Summary{}, Unusable(place, err)
		}
		if sum := summaryOf(place, meta); sum.ended(last) {
			return sum, nil
		}
	}
	known, err := recorded(place, meta)
	if err != nil {
		return Summary{}, err
	}
	if see != nil {
		known.rest = events.Read(place.EventsDir())
	}
	return known.summary(place, meta, see)
}

func summaryOf(place jobs.Job, meta jobs.Meta) Summary {
	return Summary{Job: place, Workflow: meta.Workflow, Mode: meta.Mode, Dir: meta.Dir, Started: meta.Started}
}

// lastWord returns the last event of a log, but for those that people cause between its runs. It returns nil for an
// empty log.
func lastWord(dir string) (last events.Event, err error) {
	said := func(line []byte) bool {
		r, err := events.Decode(line)
		last = r.Event
		return err == nil && !events.BetweenRuns(r.Event)
	}
	for _, err := range events.ReadLines(dir, events.Query{Matches: said, Limit: 1}) {
		if err != nil && !errors.Is(err, events.ErrTorn) {
			return nil, err
		}
	}
	return last, nil
}

// ended takes over what the record of an end says. It reports false if e does not end the job, or lacks a field.
func (s *Summary) ended(e events.Event) bool {
	end, ok := events.RunEndOf(e)
	if !ok || end.Metrics == nil {
		return false
	}
	s.State, s.Reason, s.Duration, s.Metrics = end.State, end.Reason, end.Took, *end.Metrics
	if end.Spent != nil {
		s.Spent = *end.Spent
	}
	if e, completed := e.(events.JobCompleted); completed {
		s.ReduceStale, s.ReduceHeld = e.ReduceStale, e.ReduceHeld
	}
	return true
}

// BrokerOf returns the address of the broker of the fleet that the items of a job ran on last, as it may be
// shown; empty if they ran on this machine.
func BrokerOf(place jobs.Job) (string, error) {
	meta, err := place.ReadMeta()
	if err != nil {
		return "", Unusable(place, err)
	}
	known, err := Read(place, meta)
	if err != nil {
		return "", err
	}
	return known.Broker, nil
}

// recorded returns the fold of a job at its checkpoint, for who only reads it. A log that ends before what was made
// from it is an error.
func recorded(place jobs.Job, meta jobs.Meta) (restored, error) {
	w, err := RecordedWorkflow(place, meta)
	if err != nil {
		return restored{}, err
	}
	from := ReadCheckpoint(place, w.ErrorPolicy)
	if err := checkLogEnd(place, meta, from.Mark.Seq); err != nil {
		return restored{}, err
	}
	return from.restore(nil)
}

// Read returns the fold of the whole log of a job.
func Read(place jobs.Job, meta jobs.Meta) (*Fold, error) {
	known, err := recorded(place, meta)
	if err != nil {
		return nil, err
	}
	if err := known.follow(nil); err != nil {
		return nil, Unusable(place, err)
	}
	return known.Fold, nil
}

// summary folds the rest of a log, and calls see, if it is not nil, with each record. What the state knows already is
// not folded again.
func (k restored) summary(place jobs.Job, meta jobs.Meta, see func(events.Record)) (Summary, error) {
	s, known, held := k.Fold, k.Seq, false
	for r, err := range k.rest {
		if errors.Is(err, events.ErrTorn) {
			break
		}
		if err != nil {
			return Summary{}, Unusable(place, err)
		}
		if r.Seq > known {
			s.Apply(r)
		}
		if e, ended := r.Event.(events.JobCompleted); ended {
			held = e.ReduceHeld
		}
		if see != nil {
			see(r)
		}
	}
	sum := summaryOf(place, meta)
	sum.State, sum.Reason, sum.Metrics, sum.Duration = s.Ended, s.Reason, s.Policy.Metrics(), s.Duration(s.Last)
	sum.Spent = s.Spent.Total.Clone()
	for _, e := range check.ByKey(s.Quotas) {
		sum.Paused = append(sum.Paused, e)
	}
	if s.Ended == "" {
		sum.State = jobs.Killed
	}
	if s.Ended == "" && s.Cancelled != "" {
		sum.State, sum.Reason = jobs.Cancelled, "cancelled by "+s.Cancelled
	}
	if place.Running() {
		sum.State, sum.Hold, sum.Duration = jobs.Running, s.Limits.Pause.Hold, s.Duration(time.Now())
		sum.Ending = s.Ending
	}
	sum.ReduceStale = sum.State == jobs.Completed && s.ReduceStale
	sum.ReduceHeld = sum.State == jobs.Completed && held
	return sum, nil
}

// RecordedWorkflow returns the workflow that a job was run with. One that this version cannot read is empty, which
// leaves the counts right all the same; one that is not the recorded one is an error.
func RecordedWorkflow(place jobs.Job, meta jobs.Meta) (*workflow.Workflow, error) {
	source, err := place.ReadWorkflow(meta)
	if err != nil {
		return nil, Unusable(place, err)
	}
	w, err := workflow.Parse(place.WorkflowFile(), source,
		workflow.ParseOptions{MaxDelay: time.Duration(meta.MaxDelayMS) * time.Millisecond, Values: meta.Values})
	if err != nil {
		return &workflow.Workflow{}, nil
	}
	return w, nil
}
