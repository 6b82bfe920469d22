package mapreduce

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/agent"
	"prodigy/internal/dlq"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/process"
	"prodigy/internal/workflow"
)

// call is what a fake command is asked.
type call struct {
	item    string
	attempt string
	script  string
	worker  string
}

// answer is what it does: it takes Takes and exits with Code.
type answer struct {
	takes  time.Duration
	code   int
	stdout string
	stderr string
}

// fake returns a runner that answers calls, and heeds a stop like a real process does.
func fake(reply func(call) answer) agent.Runner {
	return func(ctx context.Context, c process.Command) (process.Exit, error) {
		a := reply(call{
			item: variable(c, "PRODIGY_ITEM_ID"), attempt: variable(c, "PRODIGY_ATTEMPT"), worker: variable(c, "PRODIGY_WORKER_ID"),
			script: c.Argv[len(c.Argv)-1],
		})
		timer := time.NewTimer(a.takes)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return process.Exit{Code: -1, Signal: "SIGTERM"}, context.Cause(ctx)
		}
		if c.Stdout != nil {
			_, _ = c.Stdout.Write([]byte(a.stdout))
		}
		if c.Stderr != nil {
			_, _ = c.Stderr.Write([]byte(a.stderr))
		}
		return process.Exit{Code: a.code, Duration: a.takes}, nil
	}
}

func variable(c process.Command, name string) string {
	for _, entry := range slices.Backward(c.Env) {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			return v
		}
	}
	return ""
}

func config(t *testing.T, runner agent.Runner) Config {
	t.Helper()
	root := t.TempDir()
	return Config{
		Home: jobs.Home{Root: filepath.Join(root, "home")}, Dir: root, Environ: []string{"PATH=/bin"}, Seed: 7, Version: "test",
		MaxRetries: 3,

		EndConfig:   EndConfig{Grace: 5 * time.Second},
		FleetConfig: FleetConfig{Executor: testedExecutor()},
		LogConfig:   job.LogConfig{Durability: events.Batch},
		RunConfig:   RunConfig{Runner: runner},
	}
}

func parse(t *testing.T, source string) *workflow.Workflow {
	t.Helper()
	w, err := workflow.Parse("w.yml", []byte(source), workflow.ParseOptions{})
	if err != nil {
		t.Fatalf("parse: %v\n%s", err, source)
	}
	return w
}

func run(t *testing.T, c Config, source string) Result {
	t.Helper()
	r, err := Run(t.Context(), c, parse(t, source), []byte(source))
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	return r
}

// runInBubble runs a job to its end, with no real time for what it waits for.
func runInBubble(t *testing.T, c Config, source string) (r Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { r = run(t, c, source) })
	return r
}

func recordsOf(t *testing.T, place jobs.Job) []events.Record {
	t.Helper()
	var all []events.Record
	for r, err := range events.Read(place.EventsDir()) {
		if err != nil {
			t.Fatalf("read the log: %v", err)
		}
		all = append(all, r)
	}
	return all
}

// told returns the events of one type, with the time since the first record of the log.
func told[E events.Event](all []events.Record) (found []E, at []time.Duration) {
	for _, r := range all {
		if e, ok := r.Event.(E); ok {
			found = append(found, e)
			at = append(at, r.Time.Sub(all[0].Time))
		}
	}
	return found, at
}

// workflowOf returns a map workflow over n numbers with these slots and more root keys.
func workflowOf(n, slots int, more string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "name: w\nmode: mapreduce\nmap:\n  max_parallel: %d\n  input:\n", slots)
	for i := range n {
		fmt.Fprintf(&b, "    - %d\n", i)
	}
	b.WriteString("  agent_template:\n    - shell: work\n")
	return b.String() + more
}

func failing(items ...string) func(call) answer {
	return func(c call) answer {
		if slices.Contains(items, c.item) {
			return answer{takes: time.Second, code: 3, stderr: "no luck"}
		}
		return answer{takes: time.Second}
	}
}

func TestEveryItemIsSettledExactlyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rnd, mu := rand.New(rand.NewPCG(1, 2)), sync.Mutex{}
		c := config(t, fake(func(call) answer {
			mu.Lock()
			defer mu.Unlock()
			return answer{takes: time.Duration(rnd.IntN(3000)) * time.Millisecond, code: rnd.IntN(3)}
		}))
		r := run(t, c, workflowOf(300, 7, "error_policy:\n  on_item_failure: retry\n  retry_config: {max_attempts: 3}\n"))
		ended := map[string]int{}
		for i, rec := range recordsOf(t, r.Job) {
			if rec.Seq != int64(i+1) {
				t.Fatalf("record %d: got seq %d, want %d", i, rec.Seq, i+1)
			}
			switch e := rec.Event.(type) {
			case events.AgentCompleted:
				ended[e.ItemID]++
			case events.AgentFailed:
				if e.Action != errorpolicy.Retry {
					ended[e.ItemID]++
				}
			}
		}
		if len(ended) != 300 {
			t.Errorf("items that ended: got %d, want 300", len(ended))
		}
		for id, n := range ended {
			if n != 1 {
				t.Errorf("%s: ended %d times, want 1", id, n)
			}
		}
		if m := r.Metrics; m.Successful+m.Failed != 300 || m.TotalItems != 300 {
			t.Errorf("got %d successful and %d failed of %d, want 300 in all", m.Successful, m.Failed, m.TotalItems)
		}
	})
}

func TestAWaitingItemHoldsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(func(c call) answer {
			if c.item == "item_0" && c.attempt == "1" {
				return answer{takes: time.Second, code: 1}
			}
			return answer{takes: time.Second}
		}))
		r := run(t, c, workflowOf(3, 1, "error_policy:\n  on_item_failure: retry\n  retry_config: {max_attempts: 2, backoff: fixed, initial_delay: 10s}\n"))
		got, at := told[events.AgentCompleted](recordsOf(t, r.Job))
		var order []string
		for i, e := range got {
			order = append(order, fmt.Sprintf("%s at %s", e.ItemID, at[i].Round(time.Second)))
		}
		want := []string{"item_1 at 2s", "item_2 at 3s", "item_0 at 12s"}
		if diff := cmp.Diff(want, order); diff != "" {
			t.Errorf("completions (-want +got):\n%s", diff)
		}
	})
}

// An agent that waits for the next try of a step keeps its slot for park_after; with one slot it keeps it, so that one item comes after the other.
func TestAWaitingStepKeepsItsSlotForParkAfter(t *testing.T) {
	for name, tt := range map[string]struct {
		slots      int
		park       string
		last, wait string // when the last item that has a slot all the time ended, and the one that waits
	}{
		"at once":         {2, "\n  park_after: 0", "7s", "32s"},
		"default":         {2, "", "12s", "32s"},
		"after 3 seconds": {2, "\n  park_after: 3s", "9s", "32s"},
		"never":           {2, "\n  park_after: never", "13s", "32s"},
		"one slot":        {1, "\n  park_after: 0", "45s", "32s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var failed atomic.Bool
				c := config(t, fake(func(c call) answer {
					if c.item == "item_0" && !failed.Swap(true) {
						return answer{takes: time.Second, code: 1}
					}
					return answer{takes: time.Second}
				}))
				source := strings.Replace(workflowOf(14, tt.slots, ""), "- shell: work",
					"- shell: work\n      retry_config: {attempts: 2, backoff: fixed, initial_delay: 30s}"+tt.park, 1)
				r := run(t, c, source)
				got, at := told[events.AgentCompleted](recordsOf(t, r.Job))
				ends := map[string]string{}
				for i, e := range got {
					ends[e.ItemID] = at[i].Round(time.Second).String()
				}
				if ends["item_13"] != tt.last || ends["item_0"] != tt.wait {
					t.Errorf("got the last item at %s and the one that waits at %s, want %s and %s", ends["item_13"], ends["item_0"], tt.last, tt.wait)
				}
			})
		})
	}
}

func TestTheItemThatTripsAThresholdIsDeadLetteredAndTheRestStaysPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(failing("item_1", "item_3")))
		r := run(t, c, workflowOf(10, 1, "error_policy: {max_failures: 2}\nreduce:\n  - shell: reduce\n"))
		if r.State != jobs.Failed || r.Metrics.Failed != 2 || r.Metrics.Successful != 2 {
			t.Errorf("got %s with %d failed and %d successful (%s), want failed with 2 and 2", r.State, r.Metrics.Failed, r.Metrics.Successful, r.Reason)
		}
		if got, want := deadIDs(t, r.Job), []string{"item_1", "item_3"}; !slices.Equal(got, want) {
			t.Errorf("dead letters: got %v, want %v", got, want)
		}
		if started, _ := told[events.PhaseStarted](recordsOf(t, r.Job)); len(started) != 1 {
			t.Errorf("phases started: got %v, want map only", started)
		}
	})
}

func deadIDs(t *testing.T, place jobs.Job) []string {
	t.Helper()
	entries, err := dlq.Read(place.DLQFile())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.ItemID)
	}
	slices.Sort(ids)
	return ids
}

func TestInterruptGivesTheAttemptBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop, cancel := context.WithCancelCause(t.Context())
		c := config(t, fake(func(c call) answer { return answer{takes: time.Minute} }))
		c.Stop = stop
		time.AfterFunc(90*time.Second, func() { cancel(errors.New("interrupted by SIGINT")) })
		source := workflowOf(4, 2, "")
		r := run(t, c, source)
		if r.State != jobs.Stopped {
			t.Fatalf("got %s (%s), want stopped", r.State, r.Reason)
		}
		got, at := told[events.AgentInterrupted](recordsOf(t, r.Job))
		if len(got) != 2 || at[0].Round(time.Second) != 95*time.Second {
			t.Fatalf("interruptions: got %v at %v, want 2 when the grace of 5s has passed", got, at)
		}
		c.Stop = nil
		resumed, err := Resume(t.Context(), c, r.Job)
		if err != nil {
			t.Fatal(err)
		}
		if resumed.State != jobs.Completed || resumed.Metrics.Successful != 4 {
			t.Errorf("resumed: got %s with %d, want completed with 4", resumed.State, resumed.Metrics.Successful)
		}
		completed, _ := told[events.AgentCompleted](recordsOf(t, r.Job))
		for _, e := range completed {
			if e.Attempt != 1 {
				t.Errorf("%s: completed at attempt %d, want 1", e.ItemID, e.Attempt)
			}
		}
	})
}

func TestAStopBeginsNoFurtherPhase(t *testing.T) {
	const source = "setup:\n  - shell: a\nreduce:\n  - shell: b\nmerge:\n  - shell: c\n" // each takes three seconds, as an item does
	// A resume says that map has come, so that is in the log, but no item of it has started.
	for after, want := range map[time.Duration]int{time.Second: 2, 4 * time.Second: 2, 7 * time.Second: 3, 10 * time.Second: 4} {
		synctest.Test(t, func(t *testing.T) {
			stop, cancel := context.WithCancelCause(t.Context())
			c := config(t, fake(func(call) answer { return answer{takes: 3 * time.Second} }))
			c.Stop = stop
			time.AfterFunc(after, func() { cancel(errors.New("interrupted by SIGTERM")) })
			r := run(t, c, workflowOf(2, 2, source))
			if begun, _ := told[events.PhaseStarted](recordsOf(t, r.Job)); len(begun) != want {
				t.Errorf("a stop after %v: the phases %v began, want %d", after, begun, want)
			}
			if done := r.State == jobs.Completed; done != (want == 4) {
				t.Errorf("a stop after %v: got %s (%s)", after, r.State, r.Reason)
			}
			c.Stop = nil
			if r, err := Resume(t.Context(), c, r.Job); err != nil || r.State != jobs.Completed || r.Metrics.Successful != 2 {
				t.Errorf("resumed: %s (%v) with %d items, want completed with 2", r.State, err, r.Metrics.Successful)
			}
		})
	}
}

func TestAStopEndsAWaitAtOnce(t *testing.T) {
	for name, more := range map[string]string{"item": "error_policy:\n  on_item_failure: retry\n  retry_config: {initial_delay: 1h, max_delay: 2h}\n", "step": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stop, cancel := context.WithCancelCause(t.Context())
				c := config(t, fake(failing("item_0")))
				c.Stop = stop
				time.AfterFunc(time.Minute, func() { cancel(errors.New("interrupted")) })
				source := workflowOf(1, 1, more)
				if name == "step" {
					source = strings.Replace(source, "- shell: work", "- shell: work\n      retry_config: {initial_delay: 1h, max_delay: 2h}", 1)
				}
				began := time.Now()
				r := run(t, c, source)
				if took := time.Since(began).Round(time.Second); r.State != jobs.Stopped || took != time.Minute {
					t.Errorf("got %s after %s, want stopped after 1m0s", r.State, took)
				}
			})
		})
	}
}

func TestABreakerWithOneTestAtATimeClosesAfterTwoSuccesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(func(c call) answer {
			if c.item < "item_3" {
				return answer{takes: time.Second, code: 1}
			}
			return answer{takes: 1500 * time.Millisecond}
		}))
		r := run(t, c, workflowOf(8, 2, `error_policy:
  circuit_breaker: {failure_threshold: 3, success_threshold: 2, timeout: 30s, half_open_requests: 1, on_open: wait}
`))
		all := recordsOf(t, r.Job)
		opened, _ := told[events.CircuitOpen](all)
		half, _ := told[events.CircuitHalfOpen](all)
		closed, _ := told[events.CircuitClosed](all)
		if len(opened) != 1 || len(half) != 1 || len(closed) != 1 {
			t.Errorf("got %d openings, %d half-openings, %d closings, want one each", len(opened), len(half), len(closed))
		}
		if r.State != jobs.Completed || r.Metrics.Successful != 5 || r.Metrics.Failed != 3 {
			t.Errorf("got %s with %d successful and %d failed, want completed with 5 and 3", r.State, r.Metrics.Successful, r.Metrics.Failed)
		}
	})
}

func TestAnOpenBreakerRejectsItemsAndTheQueueGivesThemBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := true
		c := config(t, fake(func(call) answer {
			if broken {
				return answer{takes: time.Second, code: 1}
			}
			return answer{takes: time.Second}
		}))
		r := run(t, c, workflowOf(6, 1, "error_policy:\n  circuit_breaker: {failure_threshold: 2, timeout: 1h}\n"))
		if m := r.Metrics; m.Failed != 2 || m.Rejected != 4 || m.ErrorTypes["circuit_open"] != 4 {
			t.Errorf("got %+v, want 2 failed and 4 rejected", m)
		}
		broken = false
		again, err := RetryDead(t.Context(), c, r.Job, these(deadIDs(t, r.Job)...), false)
		if err != nil {
			t.Fatal(err)
		}
		if left := deadIDs(t, r.Job); again.Recovered != 6 || len(left) != 0 || again.Metrics.Rejected != 0 {
			t.Errorf("got %+v with %v left, want all 6 recovered", again, left)
		}
	})
}

func TestADeadLetterThatSucceedsLeavesTheQueueAndJoinsTheResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := true
		c := config(t, fake(func(c call) answer {
			if broken && c.item == "item_1" {
				return answer{takes: time.Second, code: 1, stderr: "down"}
			}
			return answer{takes: time.Second, stdout: "did " + c.item}
		}))
		r := run(t, c, workflowOf(3, 2, "reduce:\n  - shell: reduce\n"))
		if got := deadIDs(t, r.Job); !slices.Equal(got, []string{"item_1"}) {
			t.Fatalf("dead letters: got %v, want item_1", got)
		}
		broken = false
		again, err := RetryDead(t.Context(), c, r.Job, these("item_1"), true)
		if err != nil {
			t.Fatal(err)
		}
		if again.Recovered != 1 || again.State != jobs.Completed || again.Metrics.Successful != 3 || again.Metrics.Failed != 0 {
			t.Errorf("got %+v, want one recovered and 3 successful", again)
		}
		if got := deadIDs(t, r.Job); len(got) != 0 {
			t.Errorf("dead letters: got %v, want none", got)
		}
		rows, err := os.ReadFile(again.Results)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(strings.TrimSpace(string(rows)), "\n") {
			if want := fmt.Sprintf(`"item_id":"item_%d","index":%d,"status":"success","output":"did item_%d"`, i, i, i); !strings.Contains(line, want) {
				t.Errorf("row %d: got %s, want it to hold %s", i, line, want)
			}
		}
		completed, _ := told[events.AgentCompleted](recordsOf(t, r.Job))
		if last := completed[len(completed)-1]; last.Attempt != 2 {
			t.Errorf("the dead letter succeeded at attempt %d, want 2", last.Attempt)
		}
	})
}

func TestStrictDurabilityFreesEverySlot(t *testing.T) {
	c := config(t, fake(func(call) answer { return answer{} }))
	c.Durability = events.Strict
	if r := run(t, c, workflowOf(50, 4, "")); r.Metrics.Successful != 50 {
		t.Errorf("got %d successful, want 50", r.Metrics.Successful)
	}
}

func checkSettledOnce(t *testing.T, all []events.Record, n int) {
	t.Helper()
	ended := map[string]int{}
	for _, rec := range all {
		switch e := rec.Event.(type) {
		case events.AgentCompleted:
			ended[e.ItemID]++
		case events.AgentFailed:
			if e.Action != errorpolicy.Retry {
				ended[e.ItemID]++
			}
		}
	}
	if len(ended) != n || slices.Max(slices.Collect(maps.Values(ended))) != 1 {
		t.Errorf("ends by item: got %v, want 1 for each of %d", ended, n)
	}
}

func readLog(t *testing.T, place jobs.Job) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(place.EventsDir(), "*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatalf("log files: got %v %v, want one", files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

type placed struct {
	job  jobs.Job
	home jobs.Home
}

func withHome(c Config, p placed) Config {
	c.Home = p.home
	return c
}

// copyJob copies a job into a home of its own, with another log and without its dead letters.
func copyJob(t *testing.T, c Config, from jobs.Job, log string) placed {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS(c.Home.Root)); err != nil {
		t.Fatal(err)
	}
	home := jobs.Home{Root: root}
	to, err := home.Find(from.ID)
	if err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(to.EventsDir(), "*.jsonl"))
	if err := os.WriteFile(files[0], []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	// A crash there would not have left the first of these, and no command was started.
	for _, path := range []string{to.DLQFile(), to.ResultsFile(), to.ResultsMetaFile(), to.CheckpointFile(), to.RegisterFile()} {
		_ = os.Remove(path)
	}
	return placed{job: to, home: home}
}

func TestSetupMayMakeTheInput(t *testing.T) {
	source := "mode: mapreduce\nsetup:\n  - shell: prepare items\nmap:\n  input: items.json\n  agent_template:\n    - shell: work\n"
	made := ""
	c := config(t, fake(func(c call) answer {
		if c.script == "prepare items" {
			if err := os.WriteFile(made, []byte("[1,2]"), 0o600); err != nil {
				panic(err)
			}
		}
		return answer{}
	}))
	made = filepath.Join(c.Dir, "items.json")
	if r := run(t, c, source); r.State != jobs.Completed || r.Metrics.Successful != 2 {
		t.Errorf("got %s (%s) with %d successful, want completed with 2", r.State, r.Reason, r.Metrics.Successful)
	}
	without := strings.Replace(source, "setup:\n  - shell: prepare items\n", "", 1)
	if err := os.Remove(made); err != nil {
		t.Fatal(err)
	}
	var invalid *workflow.InvalidError
	if _, err := Run(t.Context(), c, parse(t, without), []byte(without)); !errors.As(err, &invalid) {
		t.Errorf("without setup: got %v, want that the workflow is invalid", err)
	}
}

// The tries a step has used before a crash stay used, and a budget that has expired meanwhile ends the retrying.
func TestTriesOfAStepStayUsedAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		c := config(t, fake(func(call) answer {
			tries++
			return answer{takes: time.Second, code: 1, stderr: "no"}
		}))
		dead, kill := context.WithCancelCause(t.Context())
		time.AfterFunc(5*time.Second, func() { kill(process.ErrKill) }) // after 2 tries, while the third waits
		source := strings.Replace(workflowOf(1, 1, ""), "- shell: work", "- shell: work\n      retry_config: {attempts: 4, backoff: fixed, initial_delay: 2s}", 1)
		r, err := Run(dead, c, parse(t, source), []byte(source))
		if err != nil || r.State != jobs.Stopped || tries != 2 {
			t.Fatalf("got %s, %v after %d tries, want stopped after 2", r.State, err, tries)
		}
		if r, err = Resume(t.Context(), c, r.Job); err != nil || r.Metrics.Failed != 1 {
			t.Fatalf("resume: got %+v, %v, want one failed", r, err)
		}
		if tries != 4 {
			t.Errorf("got %d tries in all, want 4", tries)
		}
	})
}

// A power loss may take more from items.jsonl than from the log: what is missing is selected again, whatever had started.
func TestItemsThatTheStoreLostAreSelectedAgain(t *testing.T) {
	c := config(t, fake(func(call) answer { return answer{} }))
	whole := run(t, c, workflowOf(5, 2, ""))
	log := readLog(t, whole.Job)
	cut := log[:strings.Index(log, `"type":"ItemsSelected"`)]
	cut = cut[:strings.LastIndex(cut, "\n")+1]
	for kept := range 6 {
		place := copyJob(t, c, whole.Job, cut)
		items, err := os.ReadFile(place.job.ItemsFile())
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(string(items), "\n")
		if err := os.WriteFile(place.job.ItemsFile(), []byte(strings.Join(lines[:kept], "")), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Resume(t.Context(), withHome(c, place), place.job)
		if err != nil || r.State != jobs.Completed || r.Metrics.Successful != 5 {
			t.Errorf("%d of 5 items left: got %s %+v, %v, want completed with 5", kept, r.State, r.Metrics, err)
		}
		checkSettledOnce(t, recordsOf(t, place.job), 5)
	}
}

func TestAnInputThatChangedIsRefusedOnResume(t *testing.T) {
	source := "mode: mapreduce\nmap:\n  input: items.json\n  agent_template:\n    - shell: work\n"
	c := config(t, fake(func(call) answer { return answer{} }))
	input := filepath.Join(c.Dir, "items.json")
	if err := os.WriteFile(input, []byte("[1,2]"), 0o600); err != nil {
		t.Fatal(err)
	}
	whole := run(t, c, source)
	log := readLog(t, whole.Job)
	place := copyJob(t, c, whole.Job, log[:strings.Index(log, "\n")+1])
	if err := os.WriteFile(input, []byte("[1,3]"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Resume(t.Context(), withHome(c, place), place.job)
	if err != nil || r.State != jobs.Failed || !strings.Contains(r.Reason, "the input has changed") {
		t.Errorf("got %s (%s), %v, want failed because the input changed", r.State, r.Reason, err)
	}
}

// crashed returns a job of which item_0 is done and item_1 was in flight when a run died, as often as there are deaths.
func crashed(t *testing.T, c Config, source string, deaths ...death) placed {
	t.Helper()
	c.MaxParallel = 1
	whole := run(t, c, source)
	log := upTo(readLog(t, whole.Job), `"type":"AgentCompleted","item_id":"item_0"`)
	seq := int64(strings.Count(log, "\n"))
	add := func(correlation string, e events.Event) {
		seq++
		log += lineOf(t, seq, correlation, e)
	}
	for i, d := range deaths {
		if !d.nothing {
			add("j/item_1", events.AgentStarted{
				AttemptID: events.AttemptID{ItemID: "item_1", ItemIndex: 1, AgentID: "a", Attempt: i + 1},
				Worker:    1, Alone: d.alone,
			})
		}
		e := events.JobResumed{Completed: 1, Pending: 2, InFlight: 1}
		if !d.explained {
			e.Died = new(lineTime.Add(d.after))
		}
		add("j", e)
	}
	return copyJob(t, c, whole.Job, log)
}

// death is the end of a run: how long after the start of item_1, and whether that was alone, or not in flight at all.
type death struct {
	after                     time.Duration
	alone, explained, nothing bool
}

func TestAnItemRunsAloneAfterDeathsThatNothingExplains(t *testing.T) {
	soon, late := death{after: time.Second}, death{after: time.Minute}
	for name, tt := range map[string]struct {
		deaths []death
		crash  int
		alone  bool
	}{
		"one":                          {deaths: []death{soon}, crash: 2},
		"two":                          {deaths: []death{soon, soon}, crash: 2, alone: true},
		"two, explained":               {deaths: []death{{explained: true}, {explained: true}, soon}, crash: 2},
		"two, long after its start":    {deaths: []death{late, late, soon}, crash: 2},
		"two, then one without it":     {deaths: []death{soon, soon, {nothing: true}}, crash: 2},
		"two, and one alone":           {deaths: []death{soon, soon, {alone: true}}, crash: 2, alone: true},
		"three, with --max-crashes 4":  {deaths: []death{soon, soon, soon}, crash: 4},
		"three, with --max-crashes 0":  {deaths: []death{soon, soon, soon}},
		"alone, and nothing in flight": {deaths: []death{soon, soon, {alone: true}, {nothing: true}, {alone: true}}, crash: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := config(t, fake(func(call) answer { return answer{takes: time.Millisecond} }))
				c.MaxCrashes = tt.crash
				place := crashed(t, c, workflowOf(4, 3, ""), tt.deaths...)
				r, err := Resume(t.Context(), withHome(c, place), place.job)
				if err != nil || r.Metrics.Successful != 4 {
					t.Fatalf("got %+v, %v, want 4 successful", r.Metrics, err)
				}
				all := recordsOf(t, place.job)
				started, _ := told[events.AgentStarted](all)
				last := started[len(started)-1]
				if last.Alone != tt.alone || last.Alone && last.ItemID != "item_1" {
					t.Errorf("last start: got %+v, want alone: %t", last, tt.alone)
				}
			})
		})
	}
}

// An item that was running alone at two deaths has failed. The policy says what follows, and the breaker does not see it.
func TestAnItemThatWasAloneAtTwoDeathsFails(t *testing.T) {
	soon, alone := death{after: time.Second}, death{alone: true}
	for name, tt := range map[string]struct {
		policy string
		state  jobs.State
		check  func(m errorpolicy.Metrics) bool
	}{
		"dead letter":  {"", jobs.Completed, func(m errorpolicy.Metrics) bool { return m.Failed == 1 && m.Successful == 3 }},
		"skipped":      {"error_policy: {on_item_failure: skip}\n", jobs.Completed, func(m errorpolicy.Metrics) bool { return m.Skipped == 1 && m.Successful == 3 }},
		"tried again":  {"error_policy: {on_item_failure: retry}\n", jobs.Completed, func(m errorpolicy.Metrics) bool { return m.Successful == 4 }},
		"max_failures": {"error_policy: {max_failures: 1}\n", jobs.Failed, func(m errorpolicy.Metrics) bool { return m.Failed == 1 && m.Successful == 1 }},
		"breaker":      {"error_policy: {circuit_breaker: {failure_threshold: 1, timeout: 1h}}\n", jobs.Completed, func(m errorpolicy.Metrics) bool { return m.Failed == 1 && m.Successful == 3 }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := config(t, fake(func(call) answer { return answer{} }))
				c.MaxCrashes = 2
				place := crashed(t, c, workflowOf(4, 3, tt.policy), soon, soon, alone, alone)
				r, err := Resume(t.Context(), withHome(c, place), place.job)
				if err != nil || r.State != tt.state || !tt.check(r.Metrics) || tt.state == jobs.Completed && r.Metrics.Successful < 4 && r.Metrics.ErrorTypes["killed_runner"] != 1 {
					t.Fatalf("got %s (%s), %+v, %v", r.State, r.Reason, r.Metrics, err)
				}
			})
		})
	}
}

// lineTime is the time of the records that tests write.
var lineTime = time.Date(2026, 11, 20, 16, 15, 30, 0, time.UTC)

func lineOf(t *testing.T, seq int64, correlation string, e events.Event) string {
	t.Helper()
	line, err := events.Encode(events.Record{Seq: seq, Time: lineTime, JobID: "j", CorrelationID: correlation, Event: e})
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

// A job that had completed is left alone, and how long it took is what the log says.
func TestAResumeOfACompletedJobTellsHowLongItTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(func(call) answer { return answer{takes: 10 * time.Second} }))
		whole := run(t, c, workflowOf(2, 1, ""))
		time.Sleep(time.Hour)
		r, err := Resume(t.Context(), c, whole.Job)
		if err != nil || r.Duration.Round(time.Millisecond) != 20*time.Second {
			t.Errorf("got %s, %v, want 20s", r.Duration, err)
		}
	})
}

// A phase lasts as long as the runs have worked on it, also when one of them was killed and the next began much later.
func TestAPhaseLastsAsLongAsTheRunsWorkedOnIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(func(call) answer { return answer{takes: 10 * time.Second} }))
		whole := run(t, c, workflowOf(4, 1, ""))
		place := copyJob(t, c, whole.Job, upTo(readLog(t, whole.Job), `"type":"AgentStarted","item_id":"item_2"`))
		time.Sleep(time.Hour)
		r, err := Resume(t.Context(), withHome(c, place), place.job)
		if err != nil {
			t.Fatal(err)
		}
		phases, _ := told[events.PhaseCompleted](recordsOf(t, place.job))
		if got := time.Duration(phases[0].DurationMS).Round(time.Millisecond); got != 40*time.Second || r.Duration.Round(time.Millisecond) != got {
			t.Errorf("got %s for the map phase and %s for the job, want 40s for both", got, r.Duration)
		}
	})
}

func TestTheTimeBetweenTwoRunsIsNotTheJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop, cancel := context.WithCancelCause(t.Context())
		c := config(t, fake(func(call) answer { return answer{takes: 10 * time.Second} }))
		c.Stop = stop
		time.AfterFunc(12*time.Second, func() { cancel(errors.New("interrupted")) })
		r := run(t, c, workflowOf(2, 1, ""))
		<-time.After(time.Hour)
		c.Stop = nil
		r, err := Resume(t.Context(), c, r.Job)
		if err != nil || r.Duration.Round(time.Second) != 27*time.Second {
			t.Errorf("got %s, %v, want 27s: 17s until the grace was over, and 10s", r.Duration, err)
		}
		s, err := job.Summarize(r.Job)
		if err != nil || s.Duration.Round(time.Millisecond) != r.Duration.Round(time.Millisecond) {
			t.Errorf("the summary says %s, %v, want %s", s.Duration, err, r.Duration)
		}
	})
}
