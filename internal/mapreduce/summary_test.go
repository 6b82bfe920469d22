package mapreduce

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
)

// Whether the last record is asked or the whole log, a job is summed up alike, wherever its log ends.
func TestASummaryOfTheLastRecordIsThatOfTheWholeLog(t *testing.T) {
	for name, k := range kinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, whole, lines := record(t, k)
			for cut := 1; cut <= len(lines); cut++ {
				synctest.Test(t, func(t *testing.T) {
					place := copyJob(t, c, whole.Job, strings.Join(lines[:cut], ""))
					checkSummary(t, place.job)
				})
			}
		})
	}
}

// What people do to the dead letters of a job that has ended changes nothing of how it ended, and a retry of them is another end.
func TestASummaryIsOfTheLastRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(failing("item_0", "item_1", "item_2")))
		r := run(t, c, workflowOf(4, 2, ""))
		checkSummary(t, r.Job)
		<-time.After(time.Hour)
		evict(t, c, r.Job, "item_0")
		checkSummary(t, r.Job)
		if _, err := RetryDead(t.Context(), stopAfter(t, c, time.Millisecond), r.Job, these("item_1", "item_2"), false); err != nil {
			t.Fatal(err)
		}
		checkSummary(t, r.Job)
		if _, err := RetryDead(t.Context(), c, r.Job, these("item_1", "item_2"), false); err != nil {
			t.Fatal(err)
		}
		checkSummary(t, r.Job)
	})
}

func checkSummary(t *testing.T, place jobs.Job) {
	t.Helper()
	want, err := job.SummarizeAnd(place, func(events.Record) {})
	if err != nil {
		t.Fatal(err)
	}
	got, err := job.Summarize(place)
	if err != nil {
		t.Fatal(err)
	}
	// The record of the end is written a moment after the run was measured.
	nearly := cmp.Options{cmp.AllowUnexported(jobs.Job{}), cmp.Comparer(func(a, b time.Duration) bool { return (a - b).Abs() < time.Millisecond })}
	if diff := cmp.Diff(want, got, nearly, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("state %q: summary (-whole log +last record):\n%s", want.State, diff)
	}
}

// A checkpoint alone is enough to notice that the log has lost its end.
func TestASummaryNoticesALogThatEndsBeforeItsCheckpoint(t *testing.T) {
	for _, source := range []string{workflowOf(6, 2, ""), "- shell: a\n- shell: b\n- shell: c\n- shell: d\n"} {
		c := config(t, fake(failing("item_1")))
		c.CheckpointRecords = 1
		r := runInBubble(t, c, source)
		lines := strings.SplitAfter(readLog(t, r.Job), "\n")
		files, _ := filepath.Glob(filepath.Join(r.Job.EventsDir(), "*.jsonl"))
		cut := strings.Join(lines[:len(lines)-3], "")
		if err := os.WriteFile(files[0], []byte(cut), 0o600); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(r.Job.DLQFile())
		for name, summarize := range map[string]func() (job.Summary, error){
			"all records": func() (job.Summary, error) { return job.SummarizeAnd(r.Job, func(events.Record) {}) },
			"the last":    func() (job.Summary, error) { return job.Summarize(r.Job) },
		} {
			if s, err := summarize(); err == nil || !strings.Contains(err.Error(), "the end of the log is lost") {
				t.Errorf("%s: got %s, %v, want that the end is lost", name, s.State, err)
			}
		}
	}
}
