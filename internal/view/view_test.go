package view_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/view"
)

const job = "mapreduce-20261120-161530-k3f9"

var start = time.Date(2026, 11, 20, 16, 15, 30, 0, time.UTC)

// clock makes records, each a second after the one before.
type clock struct {
	seq int64
	now time.Time
}

func (c *clock) record(e events.Event) events.Record {
	if c.seq == 0 {
		c.now = start
	}
	c.seq++
	c.now = c.now.Add(time.Second)
	return events.Record{Seq: c.seq, Time: c.now, JobID: job, Event: e}
}

func fold(j *view.Job, list ...events.Event) (*view.Job, time.Time) {
	var c clock
	for _, e := range list {
		j.Apply(c.record(e))
	}
	return j, c.now
}

func begun(index int) events.AgentStarted {
	return events.AgentStarted{
		AttemptID: events.AttemptID{ItemID: item(index), ItemIndex: index, Attempt: 1},
		Worker:    1 + index%8,
	}
}

func done(index int) events.AgentCompleted {
	return events.AgentCompleted{
		AttemptID:  events.AttemptID{ItemID: item(index), ItemIndex: index, Attempt: 1},
		DurationMS: events.Millis(time.Second),
	}
}

func broken(index int, action errorpolicy.Action) events.AgentFailed {
	at, delay := start.Add(time.Hour), events.Millis(time.Second)
	e := events.AgentFailed{
		AttemptID: events.AttemptID{ItemID: item(index), ItemIndex: index, AgentID: "a", Attempt: 1},
		Error:     "exit code 1", ErrorType: "command_failed",
		ErrorSignature: "exit code N", Action: action,
	}
	if action == errorpolicy.Retry {
		e.RetryAt, e.DelayMS = &at, &delay
	}
	return e
}

func item(index int) string { return "item_" + string(rune('0'+index)) }

func TestEachItemCountsByItsLastEnd(t *testing.T) {
	j, now := fold(view.New(),
		events.JobStarted{Workflow: "w"}, events.PhaseStarted{Phase: "map"}, events.ItemsSelected{TotalItems: 5},
		begun(0), begun(1), begun(2), begun(3),
		done(0), broken(1, errorpolicy.DLQ), broken(2, errorpolicy.Skip), broken(3, errorpolicy.Retry),
		events.AgentFailed{
			AttemptID: events.AttemptID{ItemID: item(4), ItemIndex: 4},
			ErrorType: "circuit_open", Action: errorpolicy.DLQ,
		},
	)
	if want := (view.Counts{Successful: 1, Failed: 1, Skipped: 1, Rejected: 1}); j.Counts != want {
		t.Errorf("counts = %+v, want %+v", j.Counts, want)
	}
	if j.Waiting(now) != 1 || j.Running(now) != 0 || j.ToGo() != 1 {
		t.Errorf("waiting %d, running %d, to go %d; want 1, 0, 1", j.Waiting(now), j.Running(now), j.ToGo())
	}
	if got := j.NextRetry(now); !got.Equal(start.Add(time.Hour)) {
		t.Errorf("next retry at %v", got)
	}
	var c clock
	c.seq, c.now = 100, start.Add(time.Minute)
	for _, e := range []events.Event{
		events.JobCompleted{}, events.JobResumed{Reason: events.ForDeadLetters, Completed: 4}, begun(1), done(1), begun(4), broken(4, errorpolicy.DLQ),
	} {
		j.Apply(c.record(e))
	}
	if want := (view.Counts{Successful: 2, Failed: 1, Skipped: 1}); j.Counts != want {
		t.Errorf("after the retry of dead letters: counts = %+v, want %+v", j.Counts, want)
	}
}

// Whoever is shown only the records of a resume comes to the same counts as who saw all.
func TestResumedCountsOnFromWhatWasBefore(t *testing.T) {
	earlier := errorpolicy.Metrics{Outcomes: errorpolicy.Outcomes{Successful: 3, Failed: 2, Rejected: 1}}
	j, _ := fold(view.Resumed(earlier), events.JobResumed{Reason: events.ForDeadLetters, Completed: 6}, begun(1), done(1))
	if want := (view.Counts{Successful: 4, Failed: 1, Rejected: 1}); j.Counts != want {
		t.Errorf("counts = %+v, want %+v", j.Counts, want)
	}
	j, _ = fold(view.Resumed(earlier), events.JobResumed{Reason: events.ForResume, Completed: 6, Pending: 4}, begun(8), done(8))
	if want := (view.Counts{Successful: 4, Failed: 2, Rejected: 1}); j.Counts != want || j.ToGo() != 3 {
		t.Errorf("counts = %+v, to go %d; want %+v, 3", j.Counts, j.ToGo(), want)
	}
}

// Logs of real jobs end with the metrics of the policy: a view of the same records has the same counts.
func TestTheCountsAreThoseOfTheMetrics(t *testing.T) {
	dirs, err := filepath.Glob("../../testdata/golden/*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no recorded logs: %v", err)
	}
	checked := 0
	for _, dir := range dirs {
		logs := dir
		if _, err := os.Stat(filepath.Join(dir, "events")); err == nil {
			logs = filepath.Join(dir, "events")
		}
		j := view.New()
		for r, err := range events.Read(logs) {
			if err != nil {
				t.Fatalf("%s: %v", dir, err)
			}
			j.Apply(r)
			var m errorpolicy.Metrics
			switch e := r.Event.(type) {
			case events.JobCompleted:
				m = e.Metrics
			case events.JobFailed:
				m = e.Metrics
			default:
				continue
			}
			checked++
			got := []int{j.Counts.Successful, j.Counts.Failed, j.Counts.Skipped, j.Counts.Rejected}
			if diff := cmp.Diff([]int{m.Successful, m.Failed, m.Skipped, m.Rejected}, got); diff != "" {
				t.Errorf("%s, record %d (-metrics +view):\n%s", dir, r.Seq, diff)
			}
		}
	}
	if checked == 0 {
		t.Error("no log had metrics")
	}
}

// An attempt whose step is to be tried again holds no slot until then.
func TestAStepBetweenTwoTriesWaits(t *testing.T) {
	j, now := fold(view.New(), events.JobStarted{}, begun(0), begun(1),
		events.StepRetrying{ItemID: item(1), Step: "get", DelayMS: events.Millis(10 * time.Second)})
	due := now.Add(10 * time.Second)
	for _, c := range []struct {
		at               time.Time
		running, waiting int
		next             time.Time
	}{{now, 1, 1, due}, {due, 2, 0, time.Time{}}} {
		running, waiting, next := j.Running(c.at), j.Waiting(c.at), j.NextRetry(c.at)
		if running != c.running || waiting != c.waiting || !next.Equal(c.next) {
			t.Errorf("at %v: got %d running and %d waiting until %v, want %d and %d until %v", c.at, running, waiting, next, c.running, c.waiting, c.next)
		}
	}
	j.Step(events.AgentProgress{ItemID: item(1), Step: "keep"})
	if got := j.Waiting(now); got != 0 {
		t.Errorf("in its next step: got %d waiting, want none", got)
	}
}

// The slot of an attempt that waits goes to another; when the wait is over, the attempt has to wait for a slot.
func TestNoMoreRunThanThereAreSlots(t *testing.T) {
	j, now := fold(view.New(), events.JobStarted{MaxParallel: 2}, begun(0), begun(1),
		events.StepRetrying{ItemID: item(0), Step: "get", DelayMS: events.Millis(10 * time.Second)},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: item(2), ItemIndex: 2, Attempt: 1}, Worker: 1})
	for _, at := range []time.Time{now, now.Add(time.Minute)} {
		if running, waiting := j.Running(at), j.Waiting(at); running != 2 || waiting != 1 {
			t.Errorf("at %v: got %d running and %d waiting, want 2 in the two slots and 1", at, running, waiting)
		}
	}
}

// Of a step that is given up, what is told depends on whether its phase goes on.
func TestStepsThatRunOnceAreListedWithTheirEnds(t *testing.T) {
	j, _ := fold(view.New(), events.JobStarted{Mode: "mapreduce"}, events.PhaseStarted{Phase: "setup"},
		events.StepRetrying{Step: "get", Attempt: 1}, events.StepCompleted{Phase: "setup", Step: "get"},
		events.StepFailed{Step: "try", Attempts: 2, Action: "continue"}, events.StepCompleted{Phase: "setup", Step: "try", Failed: true},
		events.StepCompleted{Phase: "setup", Step: "not", Skipped: true},
		events.StepFailed{ItemID: item(0), Step: "work", Action: "stop"},
		events.PhaseStarted{Phase: "reduce"}, events.StepFailed{Step: "sum", Attempts: 3, Action: "stop", Error: "exit code 1"},
	)
	var got []string
	for _, s := range j.Steps {
		got = append(got, fmt.Sprintf("%s %s %d %s %s", s.Phase, s.Name, s.Tries, s.Outcome, s.Error))
	}
	want := []string{"setup get 2 done ", "setup try 1 failed, job continued ", "setup not 0 left out ", "reduce sum 3 failed exit code 1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestACrashLeavesNothingRunning(t *testing.T) {
	j, now := fold(view.New(), events.JobStarted{}, begun(0), begun(1), events.JobResumed{Reason: events.ForResume, InFlight: 2, Pending: 3})
	if j.Running(now) != 0 || j.Total != 5 || j.Runs != 2 {
		t.Errorf("running %d, total %d, runs %d; want 0, 5, 2", j.Running(now), j.Total, j.Runs)
	}
}

func TestTheSlowestAreKeptLongestFirst(t *testing.T) {
	j := view.New()
	var c clock
	for i, seconds := range []int{3, 9, 1, 7, 5, 8, 2} {
		j.Apply(c.record(begun(i)))
		e := done(i)
		e.DurationMS = events.Millis(time.Duration(seconds) * time.Second)
		j.Apply(c.record(e))
	}
	var got []int
	for _, a := range j.Slowest {
		got = append(got, int(a.Duration.Seconds()))
	}
	if diff := cmp.Diff([]int{9, 8, 7, 5, 3}, got); diff != "" {
		t.Error(diff)
	}
}
