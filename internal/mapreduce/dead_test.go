package mapreduce

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"prodigy/internal/dlq"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
)

// these chooses the items with these ids, as far as they are in the queue.
func these(ids ...string) Chooser {
	return func(q *dlq.Queue) ([]string, error) {
		return slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
			_, found := q.Get(id)
			return !found
		}), nil
	}
}

func evict(t *testing.T, c Config, place jobs.Job, ids ...string) {
	t.Helper()
	n, err := Evict(c, place, "cleared", these(ids...))
	if err != nil || n != len(ids) {
		t.Fatalf("got %d evicted and %v, want %d", n, err, len(ids))
	}
}

const retriesAfterAnHour = `error_policy:
  on_item_failure: retry
  retry_config: {max_attempts: 2, backoff: fixed, initial_delay: 1h, max_delay: 2h}
`

// stopAfter lets a run of its Config be stopped after a time.
func stopAfter(t *testing.T, c Config, after time.Duration) Config {
	t.Helper()
	stop, cancel := context.WithCancelCause(t.Context())
	c.Stop = stop
	time.AfterFunc(after, func() { cancel(errors.New("interrupted by SIGINT")) })
	return c
}

func TestADeadLetterThatWaitedWhenItsRetryWasStoppedRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(failing("item_0", "item_1")))
		r := run(t, c, workflowOf(3, 2, retriesAfterAnHour))
		stopped, err := RetryDead(t.Context(), stopAfter(t, c, 10*time.Minute), r.Job, these("item_0", "item_1"), false)
		if err != nil || stopped.State != jobs.Stopped {
			t.Fatalf("got %s %v, want stopped while both wait", stopped.State, err)
		}
		if got, want := deadIDs(t, r.Job), []string{"item_0", "item_1"}; !slices.Equal(got, want) {
			t.Fatalf("dead letters: got %v, want %v", got, want)
		}
		// What was not asked for stays as it is.
		if _, err := RetryDead(t.Context(), c, r.Job, these("item_0"), false); err != nil {
			t.Fatal(err)
		}
		var attempts []int
		started, _ := told[events.AgentStarted](recordsOf(t, r.Job))
		for _, e := range started {
			if e.ItemID == "item_0" {
				attempts = append(attempts, e.Attempt)
			}
			if e.ItemID == "item_1" && e.Attempt > 3 {
				t.Errorf("item_1 was run again though only item_0 was asked for")
			}
		}
		if want := []int{1, 2, 3, 4, 5}; !slices.Equal(attempts, want) {
			t.Errorf("attempts of item_0: got %v, want %v", attempts, want)
		}
		entry, _, err := dlq.Find(r.Job.DLQFile(), "item_0")
		if err != nil || entry.FailureCount != 5 || entry.RetryCount != 1 {
			t.Errorf("got %d failures, sent again %d times, %v; want 5 and once", entry.FailureCount, entry.RetryCount, err)
		}
	})
}

func TestAResumeLeavesTheDeadLettersOfAStoppedRetryAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(failing("item_0", "item_1")))
		r := run(t, c, workflowOf(3, 2, retriesAfterAnHour))
		if _, err := RetryDead(t.Context(), stopAfter(t, c, 10*time.Minute), r.Job, these("item_0", "item_1"), false); err != nil {
			t.Fatal(err)
		}
		before, _ := told[events.AgentStarted](recordsOf(t, r.Job))
		resumed, err := Resume(t.Context(), c, r.Job)
		if err != nil || resumed.State != jobs.Completed {
			t.Fatalf("got %s %v, want completed", resumed.State, err)
		}
		after, _ := told[events.AgentStarted](recordsOf(t, r.Job))
		if len(after) != len(before) || len(deadIDs(t, r.Job)) != 2 {
			t.Errorf("got %d more agents and %v as dead letters, want none and both", len(after)-len(before), deadIDs(t, r.Job))
		}
	})
}

func TestEvictedLettersDoNotComeBackFromTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(failing("item_0", "item_1", "item_2")))
		r := run(t, c, workflowOf(4, 2, ""))
		before, err := job.Summarize(r.Job)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(48 * time.Hour)
		evict(t, c, r.Job, "item_0", "item_2")
		evict(t, c, r.Job)
		after, err := job.Summarize(r.Job)
		if err != nil || after.State != "completed" || after.Duration != before.Duration {
			t.Errorf("got %s after %s and %v, want completed after %s", after.State, after.Duration, err, before.Duration)
		}
		if err := os.Remove(r.Job.DLQFile()); err != nil {
			t.Fatal(err)
		}
		evict(t, c, r.Job) // catches up with the log
		if got, want := deadIDs(t, r.Job), []string{"item_1"}; !slices.Equal(got, want) {
			t.Errorf("dead letters: got %v, want %v", got, want)
		}
		removed, _ := told[events.DLQItemRemoved](recordsOf(t, r.Job))
		evicted, _ := told[events.DLQItemsEvicted](recordsOf(t, r.Job))
		if len(removed) != 2 || removed[0].Reason != "cleared" || len(evicted) != 1 || evicted[0].Count != 2 {
			t.Errorf("got %v and %v, want two removed and one record of it", removed, evicted)
		}
		resumed, err := Resume(t.Context(), c, r.Job)
		if err != nil || resumed.State != jobs.Completed || !strings.Contains(resumed.Reason, "already completed") {
			t.Errorf("resumed: got %s (%s) %v, want that it had completed", resumed.State, resumed.Reason, err)
		}
	})
}

func TestAStoppedJobGoesOnAfterItsLettersWereEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(failing("item_1")))
		r := run(t, c, workflowOf(4, 1, "error_policy: {max_failures: 1}\n"))
		evict(t, c, r.Job, "item_1")
		if s, err := job.Summarize(r.Job); err != nil || s.State != "failed" {
			t.Errorf("got %s %v, want failed", s.State, err)
		}
		resumed, err := Resume(t.Context(), c, r.Job)
		if err != nil || resumed.State != jobs.Completed || resumed.Metrics.Successful != 3 || resumed.Metrics.Failed != 1 {
			t.Errorf("got %s with %+v %v, want completed with 3 successful and 1 failed", resumed.State, resumed.Metrics, err)
		}
	})
}

func TestARetryOfNothingLeavesTheJobAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(failing()))
		r := run(t, c, workflowOf(2, 1, ""))
		before := len(recordsOf(t, r.Job))
		again, err := RetryDead(t.Context(), c, r.Job, these("item_0"), false)
		if err != nil || again.State != "" || len(recordsOf(t, r.Job)) != before {
			t.Errorf("got %+v %v with %d records, want no state and %d", again, err, len(recordsOf(t, r.Job)), before)
		}
		standard := run(t, c, "name: s\ncommands:\n  - shell: work\n")
		if _, err := RetryDead(t.Context(), c, standard.Job, these(), true); !errors.Is(err, ErrNoMap) {
			t.Errorf("standard: got %v, want ErrNoMap", err)
		}
	})
}

func TestARecoveredLetterIsInTheResultsWithoutAReduce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := true
		c := config(t, fake(func(c call) answer {
			if broken && c.item == "item_1" {
				return answer{code: 1}
			}
			return answer{stdout: "did " + c.item}
		}))
		r := run(t, c, workflowOf(3, 2, "reduce:\n  - shell: reduce\n"))
		broken = false
		again, err := RetryDead(t.Context(), c, r.Job, these("item_1"), false)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := os.ReadFile(again.Results)
		if err != nil || !strings.Contains(string(rows), `"item_id":"item_1","index":1,"status":"success","output":"did item_1"`) {
			t.Errorf("got %s %v, want a row of success for item_1", rows, err)
		}
	})
}

// DLQItemAdded and the queue count the failures of an item alike: tries that ran and failed, and refusals by the breaker; not
// attempts that were stopped or died with their run.
func TestTheLogAndTheQueueCountFailuresAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(failing("item_0", "item_1", "item_2")))
		source := workflowOf(4, 1, "error_policy:\n  on_item_failure: retry\n  retry_config: {max_attempts: 2, initial_delay: 1s}\n"+
			"  circuit_breaker: {failure_threshold: 3, timeout: 1h}\n")
		whole := run(t, c, source)
		place := copyJob(t, c, whole.Job, upTo(readLog(t, whole.Job), `"type":"AgentStarted","item_id":"item_0"`))
		c = withHome(c, place)
		r, err := Resume(t.Context(), c, place.job)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := RetryDead(t.Context(), c, r.Job, these("item_0"), false); err != nil {
			t.Fatal(err)
		}
		added, _ := told[events.DLQItemAdded](recordsOf(t, r.Job))
		last := map[string]int{}
		for _, e := range added {
			last[e.ItemID] = e.FailureCount
		}
		entries, err := dlq.Read(r.Job.DLQFile())
		if err != nil || len(entries) != 4 {
			t.Fatalf("got %d dead letters, %v, want 4", len(entries), err)
		}
		for _, e := range entries {
			if last[e.ItemID] != e.FailureCount {
				t.Errorf("%s: the log counts %d failures, the queue %d", e.ItemID, last[e.ItemID], e.FailureCount)
			}
		}
	})
}

// A run that is killed between a record and its letter leaves a queue that lacks it. Whoever reads the queue gets it all the same, and
// what had left the queue is not written to it again.
func TestLettersOfAKilledRunAreThereForReaders(t *testing.T) {
	c := config(t, fake(failing("item_1", "item_3")))
	whole := runInBubble(t, c, workflowOf(5, 1, ""))
	log := readLog(t, whole.Job)
	for name, cut := range map[string]int{"before the first": 0, "between the two": 1, "after both": 2} {
		t.Run(name, func(t *testing.T) {
			place := copyJob(t, c, whole.Job, log)
			journal, err := os.ReadFile(whole.Job.DLQFile())
			if err != nil {
				t.Fatal(err)
			}
			kept := strings.Join(strings.SplitAfter(string(journal), "\n")[:cut], "")
			if err := os.WriteFile(place.job.DLQFile(), []byte(kept), 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := job.UpdateLetters(place.job, 3, nil); err != nil {
					t.Fatal(err)
				}
				if got, want := deadIDs(t, place.job), []string{"item_1", "item_3"}; !slices.Equal(got, want) {
					t.Fatalf("dead letters: got %v, want %v", got, want)
				}
			}
			again, err := os.ReadFile(place.job.DLQFile())
			if err != nil || string(again) != string(journal) {
				t.Errorf("the journal, %v: got\n%s\nwant\n%s", err, again, journal)
			}
		})
	}
}

func TestCatchingUpDoesNotWriteWhatHasLeftTheQueue(t *testing.T) {
	broken := true
	c := config(t, fake(func(call) answer {
		if broken {
			return answer{code: 1}
		}
		return answer{}
	}))
	r := run(t, c, workflowOf(3, 1, ""))
	broken = false
	if _, err := RetryDead(t.Context(), c, r.Job, these("item_0", "item_1"), false); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(r.Job.DLQFile())
	if err != nil {
		t.Fatal(err)
	}
	evict(t, c, r.Job, "item_2")
	after, err := os.ReadFile(r.Job.DLQFile())
	if err != nil {
		t.Fatal(err)
	}
	added := strings.TrimPrefix(string(after), string(before))
	if strings.Contains(added, `"op":"add"`) || strings.Count(added, "\n") != 2 {
		t.Errorf("the journal has grown by\n%s\nwant one removal and a mark", added)
	}
}

// A log that was never synced can lose its end to a power loss, and leave a queue that knows more. The queue is made again, which is told.
func TestAQueueAheadOfItsLogIsFollowedAnewAndTold(t *testing.T) {
	c := config(t, fake(failing("item_1", "item_3")))
	whole := runInBubble(t, c, workflowOf(5, 1, ""))
	place := copyJob(t, c, whole.Job, upTo(readLog(t, whole.Job), `"type":"AgentStarted","item_id":"item_1"`))
	journal, err := os.ReadFile(whole.Job.DLQFile())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(place.job.DLQFile(), journal, 0o600); err != nil {
		t.Fatal(err)
	}
	c = withHome(c, place)
	c.Runner = fake(failing("item_2"))
	var said []string
	c.Notice = func(text string) { said = append(said, text) }
	synctest.Test(t, func(t *testing.T) {
		if _, err := Resume(t.Context(), c, place.job); err != nil {
			t.Fatal(err)
		}
	})
	if got, want := deadIDs(t, place.job), []string{"item_2"}; !slices.Equal(got, want) {
		t.Errorf("dead letters: got %v, want %v", got, want)
	}
	if got := strings.Join(said, "\n"); !strings.Contains(got, "the end of the log is lost: it ends with record 6, but at least 19 were written") {
		t.Errorf("told: got %q", got)
	}
}

// A retry with reduce that is stopped, or dies, owes the reduce phase: the next resume runs it.
func TestAReduceThatWasAskedForIsRunByTheResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken, reduced := true, 0
		c := config(t, fake(func(c call) answer {
			switch {
			case c.script == "sum":
				reduced++
			case c.item == "item_1" && broken:
				return answer{code: 1}
			}
			return answer{takes: time.Minute}
		}))
		whole := run(t, c, workflowOf(3, 1, "reduce:\n  - shell: sum\n"))
		broken = false
		stopped := stopAfter(t, c, time.Second)
		stopped.Grace = 0
		if r, err := RetryDead(t.Context(), stopped, whole.Job, these("item_1"), true); err != nil || r.State != jobs.Stopped {
			t.Fatalf("got %s, %v, want stopped", r.State, err)
		}
		for _, want := range []int{2, 2} { // and only once
			r, err := Resume(t.Context(), c, whole.Job)
			if err != nil || r.State != jobs.Completed || reduced != want {
				t.Errorf("resume: got %s, %v and %d runs of reduce, want completed and %d", r.State, err, reduced, want)
			}
		}
		resumed, _ := told[events.JobResumed](recordsOf(t, whole.Job))
		if last := resumed[len(resumed)-1]; last.InFlight != 0 || last.Completed != 3 || last.Pending != 0 {
			t.Errorf("found: got %+v, want 3 settled, the dead letter among them, and nothing to start again", last)
		}
	})
}
