package mapreduce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/process"
	"prodigy/internal/retry"
	"prodigy/internal/testenv"
)

// recorded is a kind of job to be cut.
type recorded struct {
	source string
	reply  func(call) answer
	items  int  // that it has
	same   bool // its end does not depend on where it is cut
}

func kinds() map[string]recorded {
	flaky := func(c call) answer {
		if c.item == "item_2" || (c.item == "item_4" && c.attempt == "1") {
			return answer{takes: time.Second, code: 1, stderr: "no"}
		}
		return answer{takes: time.Second, stdout: c.script}
	}
	return map[string]recorded{
		"item retries between two phases": {items: 6, same: true, reply: flaky, source: workflowOf(6, 2,
			"error_policy:\n  on_item_failure: retry\n  retry_config: {max_attempts: 2, initial_delay: 3s}\n"+
				"setup:\n  - shell: first\n    capture: seen\n  - shell: second ${seen}\n"+
				"reduce:\n  - shell: reduce ${map.successful} ${seen}\n  - shell: last\n")},
		"step retries": {items: 5, same: true, reply: failing("item_2"), source: strings.Replace(workflowOf(5, 3, ""), "- shell: work",
			"- shell: work\n      retry_config: {attempts: 3, initial_delay: 2s}\n    - shell: more", 1)},
		"a rate for each key": {items: 6, same: true, reply: failing("item_2"), source: rated(3, `{limit: 1/2s, burst: 2, per: "${item.host}"}`,
			"      retry_config: {attempts: 2, backoff: fixed, initial_delay: 1s}\n", "a", "a", "a", "b", "a", "b")},
		"a breaker for each key": {items: 9, reply: failing("item_0", "item_1", "item_3"), source: strings.Replace(
			rated(2, "1/s", "", "a", "a", "b", "a", "b", "a", "b", "b", "a"), "  rate: 1/s\n", "", 1) +
			"error_policy:\n  circuit_breaker: {per: \"${item.host}\", failure_threshold: 2, success_threshold: 1, half_open_requests: 1, timeout: 20s}\n"},
		"few retries for the first attempts": {items: 8, same: true, reply: failing("item_1", "item_3", "item_4", "item_6"), source: workflowOf(8, 2,
			"error_policy:\n  on_item_failure: retry\n  retry_ratio: {ratio: 0.1, window: 20s, min: 1}\n  retry_config: {max_attempts: 3, backoff: fixed, initial_delay: 1s}\n")},
		"a canary and a ramp": {items: 9, same: true, reply: failing("item_1"), source: rolled(9, "canary: {items: 3, success_rate: 0.6}\nramp: {steps: [1, 2, 3], items: 2, success_rate: 0.5}",
			"error_policy:\n  on_item_failure: retry\n  retry_config: {max_attempts: 2, initial_delay: 3s}\n")},
		"a step with a rate": {items: 6, same: true, reply: failing("item_2"), source: called(3, "{limit: 1/2s, burst: 2, per: \"${item.host}\"}",
			"      retry_config: {attempts: 2, backoff: fixed, initial_delay: 1s}\n", "a", "a", "a", "b", "a", "b")},
		"agents at once that adapt": {items: 8, reply: failing("item_2"), source: strings.Replace(rated(1, "1/s",
			"      retry_config: {attempts: 2, backoff: fixed, initial_delay: 1s, retry_on: [{exit_code: 3}]}\n", slices.Repeat([]string{"a"}, 8)...),
			"max_parallel: 1\n  rate: 1/s", "concurrency: {min: 2, max: 6, adapt: true}", 1)},
		"stragglers": {items: 7, reply: func(c call) answer {
			switch {
			case c.item == "item_1":
				return answer{takes: time.Minute}
			case c.item == "item_3":
				return answer{takes: 15 * time.Second}
			case c.item == "item_5":
				return answer{takes: 12 * time.Second, code: 1}
			}
			return answer{takes: 4 * time.Second}
		}, source: slow(7, 4, "8s", true, "")},
		"skipped items": {items: 4, same: true, reply: flaky, source: workflowOf(4, 2, "error_policy: {on_item_failure: skip}\n")},
		"a breaker that opens": {items: 8, reply: failing("item_1", "item_2", "item_3"), source: workflowOf(8, 1,
			"error_policy:\n  circuit_breaker: {failure_threshold: 2, success_threshold: 2, half_open_requests: 1, timeout: 20s, on_open: wait}\n")},
		"a stop by the policy": {items: 8, reply: failing("item_1", "item_3", "item_5"), source: workflowOf(8, 2,
			"error_policy: {max_failures: 2}\n")},
		"steps that run once": {same: true, reply: flaky, source: "mode: standard\ncommands:\n  - shell: a\n    capture: x\n  - shell: b ${x}\n" +
			"    retry_config: {attempts: 2}\n  - shell: c\n"},
		"no items": {same: true, reply: flaky, source: "mode: mapreduce\nmap:\n  on_empty: ok\n  input: []\n  agent_template:\n    - shell: work\nreduce:\n  - shell: r\n"},
	}
}

// A job that is taken up at any point of its log settles every item exactly once, and where its end does not depend on the
// clock or on the order of things, it ends as the uncut one did.
func TestALogCutAfterAnyRecordResumesToTheSameEnd(t *testing.T) {
	for name, k := range kinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, whole, lines := record(t, k)
			for _, cut := range cuts(lines) {
				checkCut(t, c, k, whole, cut, strings.Join(lines[:cut], ""))
			}
		})
	}
}

// The same from a checkpoint, of the last record that is left or of one long before it.
func TestALogCutAfterAnyRecordResumesFromACheckpointToTheSameEnd(t *testing.T) {
	for name, k := range kinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, whole, lines := record(t, k)
			all := moments(t, whole.Job, parse(t, k.source).ErrorPolicy)
			for i, cut := range cuts(lines) {
				at := cut
				if i%2 > 0 {
					at = cut/2 + 1 // there are records after it
				}
				place := copyJob(t, c, whole.Job, strings.Join(lines[:cut], ""))
				all[at-1].put(t, place.job)
				if !job.ReadCheckpoint(place.job, parse(t, k.source).ErrorPolicy).Usable {
					t.Fatalf("cut after record %d: got no checkpoint, want that of record %d", cut, at)
				}
				checkEnd(t, c, k, whole, cut, place)
			}
		})
	}
}

// A line that was cut short did not happen.
func TestALogCutInsideALineResumesFromTheLineBefore(t *testing.T) {
	k := kinds()["item retries between two phases"]
	c, whole, lines := record(t, k)
	for _, cut := range cuts(lines) {
		next := lines[cut]
		for _, kept := range []int{1, len(next) / 2, len(next) - 1} {
			checkCut(t, c, k, whole, cut, strings.Join(lines[:cut], "")+next[:kept])
		}
	}
}

// cuts returns the records after which a log is cut: the first of each type, and every nth.
func cuts(lines []string) (after []int) {
	n := testenv.OneIn(8, 4)
	seen := map[string]bool{}
	for i := 1; i < len(lines); i++ {
		_, kind, _ := strings.Cut(lines[i-1], `"type":"`)
		kind, _, _ = strings.Cut(kind, `"`)
		if i%n == 0 || !seen[kind] && !testing.Short() {
			after = append(after, i)
		}
		seen[kind] = true
	}
	return after
}

// record runs a job to its end and returns its log in lines.
func record(t *testing.T, k recorded) (c Config, whole Result, lines []string) {
	t.Helper()
	c = config(t, fake(k.reply))
	c.CheckpointRecords = 1 // its last one is of the whole log, and no cut log has that record
	whole = runInBubble(t, c, k.source)
	return c, whole, strings.SplitAfter(strings.TrimSuffix(readLog(t, whole.Job), "\n"), "\n")
}

func checkCut(t *testing.T, c Config, k recorded, whole Result, cut int, log string) {
	t.Helper()
	checkEnd(t, c, k, whole, cut, copyJob(t, c, whole.Job, log))
}

func checkEnd(t *testing.T, c Config, k recorded, whole Result, cut int, place placed) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r, err := Resume(t.Context(), withHome(c, place), place.job)
		for rounds := 0; err == nil && r.State == jobs.Failed && rounds < 4; rounds++ {
			r, err = Resume(t.Context(), withHome(c, place), place.job) // a stop by the policy: go on with what is pending
		}
		if err != nil || r.State != jobs.Completed {
			t.Fatalf("cut after record %d: got %s (%s), %v, want completed", cut, r.State, r.Reason, err)
		}
		if k.items > 0 {
			checkSettledOnce(t, recordsOf(t, place.job), k.items)
		}
		if k.same {
			checkSame(t, cut, whole, r, place.job)
		}
	})
}

func checkSame(t *testing.T, cut int, whole, r Result, place jobs.Job) {
	t.Helper()
	if diff := cmp.Diff(whole.Metrics, r.Metrics); diff != "" {
		t.Errorf("cut after record %d: metrics (-want +got):\n%s", cut, diff)
	}
	if r.Metrics.TotalItems == 0 {
		return
	}
	if got, want := deadIDs(t, place), deadIDs(t, whole.Job); !slices.Equal(got, want) {
		t.Errorf("cut after record %d: dead letters: got %v, want %v", cut, got, want)
	}
}

// Resuming runs no item again whose end is in the log.
func TestNoFinishedItemRunsAgain(t *testing.T) {
	var ran atomic.Int64
	k := recorded{items: 6, source: workflowOf(6, 2, ""), reply: func(call) answer {
		ran.Add(1)
		return answer{takes: time.Second}
	}}
	c, whole, lines := record(t, k)
	for _, cut := range cuts(lines) {
		log := strings.Join(lines[:cut], "")
		ended := int64(strings.Count(log, `"type":"AgentCompleted"`))
		ran.Store(0)
		checkCut(t, c, k, whole, cut, log)
		if got := ran.Load(); got != 6-ended {
			t.Errorf("cut after record %d: got %d runs, want %s", cut, got, fmt.Sprint(6-ended))
		}
	}
}

// A step of a phase that is done is not run again, and what it captured is still known.
func TestDoneStepsAreNotRepeatedAndTheirCapturesStay(t *testing.T) {
	var mu sync.Mutex
	var ran []string
	k := recorded{
		source: "mode: standard\ncommands:\n  - shell: a\n    capture: x\n  - shell: b $x\n  - shell: c\n",
		reply: func(c call) answer {
			mu.Lock()
			defer mu.Unlock()
			ran = append(ran, c.script)
			return answer{stdout: "from " + c.script[:1]}
		},
	}
	c, whole, lines := record(t, k)
	var log strings.Builder
	for _, line := range lines {
		log.WriteString(line)
		if strings.Contains(line, `"type":"StepCompleted"`) && strings.Contains(line, `"step_index":0`) {
			break
		}
	}
	ran = nil
	var x string
	c.Runner = func(ctx context.Context, cmd process.Command) (process.Exit, error) {
		x += variable(cmd, "x")
		return fake(k.reply)(ctx, cmd)
	}
	checkCut(t, c, k, whole, 2, log.String())
	if want := []string{"b $x", "c"}; !slices.Equal(ran, want) || x != "from a" {
		t.Errorf("got runs %q with x %q, want %q with x %q", ran, x, want, "from a")
	}
}

func TestThresholdsCountFromTheResumeOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(failing("item_1", "item_3", "item_5")))
		r := run(t, c, workflowOf(8, 1, "error_policy: {max_failures: 2}\n"))
		if r.State != jobs.Failed || r.Metrics.Failed != 2 {
			t.Fatalf("got %s with %d failed, want failed with 2", r.State, r.Metrics.Failed)
		}
		r, err := Resume(t.Context(), c, r.Job)
		if err != nil || r.State != jobs.Completed || r.Metrics.Failed != 3 {
			t.Errorf("resumed: got %s (%s) with %d failed, %v, want completed with 3", r.State, r.Reason, r.Metrics.Failed, err)
		}
	})
}

// A budget counts waiting while a job runs, and is a moment on the clock once it has been resumed.
func TestABudgetThatExpiredBetweenTwoRunsIsSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop, cancel := context.WithCancelCause(t.Context())
		c := config(t, fake(failing("item_0")))
		c.Stop = stop
		time.AfterFunc(5*time.Second, func() { cancel(errors.New("interrupted")) }) // in the first wait
		r := run(t, c, workflowOf(1, 1, "error_policy:\n  on_item_failure: retry\n"+
			"  retry_config: {max_attempts: 9, backoff: fixed, initial_delay: 10s, retry_budget: 1m}\n"))
		<-time.After(time.Hour)
		c.Stop = nil
		r, err := Resume(t.Context(), c, r.Job)
		if err != nil || r.Metrics.Failed != 1 {
			t.Fatalf("got %+v, %v, want one failed", r.Metrics, err)
		}
		failed, _ := told[events.AgentFailed](recordsOf(t, r.Job))
		if got := len(failed); got != 2 {
			t.Errorf("got %d attempts, want 2: the one before the budget expired, and the one that was due", got)
		}
	})
}

// Selection does not wait for the pool, so that a resume depends on the input for as short as can be.
func TestSelectionIsOverLongBeforeItsLastItemRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(func(call) answer { return answer{takes: time.Second} }))
		r := run(t, c, workflowOf(100, 1, ""))
		_, at := told[events.ItemsSelected](recordsOf(t, r.Job))
		if len(at) != 1 || at[0] > 2*time.Second {
			t.Errorf("got the end of the selection at %v of 100s, want it at the start", at)
		}
	})
}

// A clock that was set back between two runs makes nothing wait longer than it would have, and no duration negative.
// What waits for its next try or attempt waits no longer and no shorter because the job was stopped meanwhile.
func TestWhatWaitsKeepsItsTimeOverAResume(t *testing.T) {
	step := strings.Replace(workflowOf(1, 1, ""), "- shell: work",
		"- shell: work\n      retry_config: {attempts: 2, backoff: fixed, initial_delay: 1h, max_delay: 2h}", 1)
	for name, source := range map[string]string{"an item": workflowOf(1, 1, retriesAfterAnHour), "a step of an item": step, "a step of a phase": "- shell: work\n" +
		"  retry_config: {attempts: 2, backoff: fixed, initial_delay: 1h, max_delay: 2h}\n"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, tried := time.Now(), []time.Duration{}
				c := config(t, fake(func(call) answer {
					tried = append(tried, time.Since(began).Round(time.Second))
					return answer{code: 1}
				}))
				r := run(t, stopAfter(t, c, time.Minute), source)
				if r.State != jobs.Stopped {
					t.Fatalf("got %s (%s), want stopped", r.State, r.Reason)
				}
				time.Sleep(20 * time.Minute)
				if _, err := Resume(t.Context(), c, r.Job); err != nil {
					t.Fatal(err)
				}
				if want := []time.Duration{0, time.Hour}; !slices.Equal(tried, want) {
					t.Errorf("tried at %v, want %v", tried, want)
				}
			})
		})
	}
}

// A budget of a step that has expired between two runs ends its retrying, with the tries that were used.
func TestABudgetOfAStepThatExpiredBetweenTwoRunsIsSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(failing("item_0")))
		source := strings.Replace(workflowOf(1, 1, ""), "- shell: work",
			"- shell: work\n      retry_config: {attempts: 9, backoff: fixed, initial_delay: 10s, retry_budget: 1m}", 1)
		r := run(t, stopAfter(t, c, 5*time.Second), source)
		time.Sleep(time.Hour)
		r, err := Resume(t.Context(), c, r.Job)
		if err != nil || r.Metrics.Failed != 1 {
			t.Fatalf("got %+v, %v, want one failed", r.Metrics, err)
		}
		failed, _ := told[events.StepFailed](recordsOf(t, r.Job))
		if len(failed) != 1 || failed[0].Reason != retry.Budget || failed[0].Attempts != 1 {
			t.Errorf("got %+v, want that the budget ended it after 1 try", failed)
		}
	})
}

func TestAClockThatWasSetBackDelaysNothing(t *testing.T) {
	k := kinds()["item retries between two phases"]
	c := config(t, fake(k.reply))
	var whole Result
	synctest.Test(t, func(t *testing.T) {
		<-time.After(24 * time.Hour)
		whole = run(t, c, k.source)
	})
	log := readLog(t, whole.Job)
	i := strings.Index(log, `"retry_at"`)
	log = log[:i+strings.Index(log[i:], "\n")+1]
	synctest.Test(t, func(t *testing.T) {
		place := copyJob(t, c, whole.Job, log)
		began := time.Now()
		if _, err := Resume(t.Context(), withHome(c, place), place.job); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("the resume took %s, want seconds", took)
		}
		ended, _ := told[events.PhaseCompleted](recordsOf(t, place.job))
		for _, e := range ended {
			if e.DurationMS < 0 {
				t.Errorf("%s took %v, want no less than nothing", e.Phase, time.Duration(e.DurationMS))
			}
		}
	})
}
