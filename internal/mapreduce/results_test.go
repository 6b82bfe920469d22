package mapreduce

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"prodigy/internal/dlq"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/testenv"
)

// outcome is how the newest ended attempt of an item ended.
type outcome struct {
	Index   int    `json:"index"`
	Status  string `json:"status"`
	Attempt int    `json:"attempt"`
	Output  string `json:"output"`
}

// foldOutcomes finds the outcomes of a job whose items have all been settled, and the failed attempts of each that did not succeed in the end.
func foldOutcomes(all []events.Record) (rows []outcome, failed map[string][]int) {
	newest := map[int]outcome{}
	failed = map[string][]int{}
	for _, r := range all {
		switch e := r.Event.(type) {
		case events.AgentCompleted:
			newest[e.ItemIndex] = outcome{e.ItemIndex, "success", e.Attempt, e.Output}
			delete(failed, e.ItemID)
		case events.AgentFailed:
			newest[e.ItemIndex] = outcome{e.ItemIndex, "failed", e.Attempt, e.Output}
			failed[e.ItemID] = append(failed[e.ItemID], e.Attempt)
		}
	}
	for _, o := range newest {
		rows = append(rows, o)
	}
	slices.SortFunc(rows, func(a, b outcome) int { return cmp.Compare(a.Index, b.Index) })
	return rows, failed
}

// checkOutcomes holds the results and the dead letters of a job against its log.
func checkOutcomes(t *testing.T, what string, place jobs.Job) {
	t.Helper()
	want, failed := foldOutcomes(recordsOf(t, place))
	data, err := os.ReadFile(place.ResultsFile())
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	var got []outcome
	for line := range bytes.Lines(data) {
		var o outcome
		if err := json.Unmarshal(line, &o); err != nil {
			t.Fatalf("%s: row %s: %v", what, line, err)
		}
		got = append(got, o)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: results: got %v, want %v", what, got, want)
	}
	m, ok := job.ReadResultsMeta(place.ResultsMetaFile())
	if !ok || m.Rows != len(want) || !job.ResultsFresh(place, m.Seq) {
		t.Errorf("%s: got companion %+v %v, want one of these %d rows", what, m, ok, len(want))
	}
	letters, err := dlq.Read(place.DLQFile())
	if err != nil || len(letters) != len(failed) {
		t.Errorf("%s: got %d dead letters, %v, want %d", what, len(letters), err, len(failed))
	}
	for _, l := range letters {
		var attempts []int
		for _, f := range l.FailureHistory {
			attempts = append(attempts, f.Attempt)
		}
		if !slices.Equal(attempts, failed[l.ItemID]) || l.FailureCount != len(attempts) {
			t.Errorf("%s: letter of %s: got attempts %v, want %v", what, l.ItemID, attempts, failed[l.ItemID])
		}
	}
}

// Whatever is retried, stopped, killed, or lost with the power, the next command that works on the job leaves results and dead letters
// that say what the log does.
func TestResultsAndLettersAreAFoldOfTheLogAfterAnyRetries(t *testing.T) {
	for seed := uint64(0); seed < 12; seed += uint64(testenv.OneIn(6, 3)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { retryAtRandom(t, rand.New(rand.NewPCG(seed, 10))) })
		})
	}
}

func retryAtRandom(t *testing.T, rnd *rand.Rand) {
	var mu sync.Mutex
	broken := 0.8
	c := config(t, fake(func(c call) answer {
		mu.Lock()
		defer mu.Unlock()
		a := answer{takes: time.Duration(rnd.IntN(3000)) * time.Millisecond, stdout: "attempt " + c.attempt}
		if rnd.Float64() < broken && c.script == "work" {
			a.code = 3
		}
		return a
	}))
	c.CheckpointRecords, c.MaxRetries = int64(1+rnd.IntN(40)), 1000
	r := run(t, c, workflowOf(8, 1+rnd.IntN(3), "reduce:\n  - shell: sum\n"+
		"error_policy:\n  on_item_failure: retry\n  retry_config: {max_attempts: 2, backoff: fixed, initial_delay: 2s}\n"))
	checkOutcomes(t, "the first run", r.Job)
	all := make([]string, 8)
	for i := range all {
		all[i] = fmt.Sprintf("item_%d", i)
	}
	broken = 0.5
	for range 6 {
		chosen := slices.DeleteFunc(slices.Clone(all), func(string) bool { return rnd.IntN(2) == 0 })
		before := keep(t, r.Job)
		records := len(recordsOf(t, r.Job))
		retry := c
		what := "retry"
		if rnd.IntN(2) == 0 {
			retry, what = stopAfter(t, c, time.Duration(rnd.IntN(6000))*time.Millisecond), "stopped retry"
			retry.Grace = time.Duration(rnd.IntN(2)) * time.Minute
		}
		if _, err := RetryDead(t.Context(), retry, r.Job, these(chosen...), rnd.IntN(3) == 0); err != nil {
			t.Fatal(err)
		}
		checkOutcomes(t, what, r.Job)
		lines := strings.SplitAfter(readLog(t, r.Job), "\n")
		lines = lines[:len(lines)-1]
		if rnd.IntN(2) == 0 || len(lines) == records {
			continue
		}
		// As if it had been killed behind one of its records; or the power had failed, which keeps files that know more than the log.
		what = "the resume of a retry without its power"
		kept := records + rnd.IntN(len(lines)-records)
		files, _ := filepath.Glob(filepath.Join(r.Job.EventsDir(), "*.jsonl"))
		if err := os.WriteFile(files[0], []byte(strings.Join(lines[:kept], "")), 0o600); err != nil {
			t.Fatal(err)
		}
		if rnd.IntN(2) == 0 {
			before.put(t)
			what = "the resume of a killed retry"
		}
		switch rnd.IntN(3) {
		case 0:
			if _, err := Resume(t.Context(), c, r.Job); err != nil {
				t.Fatal(err)
			}
		case 1: // nothing is left to retry, or nothing was asked for
			if _, err := RetryDead(t.Context(), c, r.Job, these(), false); err != nil {
				t.Fatal(err)
			}
		default:
			if _, err := RetryDead(t.Context(), c, r.Job, these(all...), false); err != nil {
				t.Fatal(err)
			}
		}
		checkOutcomes(t, what, r.Job)
	}
}

// keptFiles are the files beside the log, as they were.
type keptFiles map[string][]byte

func keep(t *testing.T, place jobs.Job) keptFiles {
	t.Helper()
	k := keptFiles{}
	for _, path := range []string{place.DLQFile(), place.ResultsFile(), place.ResultsMetaFile(), place.CheckpointFile()} {
		data, err := os.ReadFile(path)
		if err == nil {
			k[path] = data
		}
	}
	return k
}

func (k keptFiles) put(t *testing.T) {
	t.Helper()
	for path, data := range k {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A row is of the newest attempt also when that failed again, and a letter has the attempts of a retry that the policy stopped.
func TestARetryThatThePolicyStopsIsInLettersAndResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(failing("item_0", "item_1")))
		r := run(t, c, workflowOf(3, 2, "error_policy:\n  on_item_failure: retry\n  max_failures: 3\n"+
			"  retry_config: {max_attempts: 2, backoff: fixed, initial_delay: 1h, max_delay: 2h}\nreduce:\n  - shell: sum\n"))
		c.Runner = fake(func(c call) answer {
			if c.item == "item_0" {
				return answer{takes: time.Minute, code: 4}
			}
			return answer{takes: 90 * time.Minute, code: 5}
		})
		// item_0 waits for its second try when the stop comes.
		stopped, err := RetryDead(t.Context(), stopAfter(t, c, 2*time.Minute), r.Job, these("item_0"), false)
		if err != nil || stopped.State != jobs.Stopped {
			t.Fatalf("got %s %v, want stopped", stopped.State, err)
		}
		checkOutcomes(t, "stopped while a letter waits", r.Job)
		if e, _, err := dlq.Find(r.Job.DLQFile(), "item_0"); err != nil || e.FailureCount != 3 || e.RetryCount != 0 {
			t.Errorf("got %d failures, sent again %d times, %v; want 3, and 0 since the retry did not come to its end", e.FailureCount, e.RetryCount, err)
		}
	})
}

func TestDamagedResultsAreMadeAgain(t *testing.T) {
	c := config(t, fake(failing("item_1")))
	r := runInBubble(t, c, workflowOf(3, 1, "reduce:\n  - shell: sum\n"))
	good := keep(t, r.Job)
	for name, damage := range map[string]func(){
		"cut": func() { _ = os.Truncate(r.Job.ResultsFile(), 30) },
		"one bit": func() {
			data := bytes.Clone(good[r.Job.ResultsFile()])
			data[20] ^= 1
			_ = os.WriteFile(r.Job.ResultsFile(), data, 0o600)
		},
		"gone":              func() { _ = os.Remove(r.Job.ResultsFile()) },
		"companion gone":    func() { _ = os.Remove(r.Job.ResultsMetaFile()); _ = os.Truncate(r.Job.ResultsFile(), 0) },
		"companion damaged": func() { _ = os.WriteFile(r.Job.ResultsMetaFile(), []byte("{}\n"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			good.put(t)
			damage()
			if err := job.UpdateResults(r.Job); err != nil {
				t.Fatal(err)
			}
			for path, want := range good {
				if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s: got %s %v, want %s", filepath.Base(path), got, err, want)
				}
			}
		})
	}
	t.Run("never made", func(t *testing.T) {
		_, _ = os.Remove(r.Job.ResultsFile()), os.Remove(r.Job.ResultsMetaFile())
		err := job.UpdateResults(r.Job)
		if _, stat := os.Stat(r.Job.ResultsFile()); err != nil || stat == nil {
			t.Errorf("got results %v, %v, want none", stat == nil, err)
		}
	})
}

// Records that come in the place of lost ones have their numbers, and results of the lost ones must not pass for theirs.
func TestResultsOfRecordsThatTheLogHasLostDoNotCount(t *testing.T) {
	c := config(t, fake(failing("item_1")))
	r := runInBubble(t, c, workflowOf(3, 1, "reduce:\n  - shell: sum\n"))
	files, _ := filepath.Glob(filepath.Join(r.Job.EventsDir(), "*.jsonl"))
	if err := os.WriteFile(files[0], []byte(upTo(readLog(t, r.Job), `"type":"AgentCompleted","item_id":"item_0"`)), 0o600); err != nil {
		t.Fatal(err)
	}
	evict(t, c, r.Job) // opens the job, and no more
	if m, ok := job.ReadResultsMeta(r.Job.ResultsMetaFile()); ok {
		t.Errorf("got a companion of record %d, want none", m.Seq)
	}
}

// An output that is too large for the log is in a file of its own, which the log has the checksum of. It moves with the job.
func TestADamagedOutputIsTold(t *testing.T) {
	large := strings.Repeat("x", events.MaxOutput+1)
	c := config(t, fake(func(c call) answer {
		if c.item == "item_1" {
			return answer{stdout: large, code: 3}
		}
		return answer{stdout: large}
	}))
	r := run(t, c, workflowOf(2, 1, "reduce:\n  - shell: sum\n"))
	moved := copyJob(t, c, r.Job, readLog(t, r.Job)).job
	_ = os.RemoveAll(r.Job.OutputsDir())
	both := job.NewFold(errorpolicy.Policy{})
	both.Total, both.Outcome, both.Status = 2, 1, statusesOf(2)
	update := func() error { return job.MakeResults(moved, both) }
	if err := update(); err != nil {
		t.Fatalf("moved: %v", err)
	}
	rows, err := os.ReadFile(moved.ResultsFile())
	if err != nil || strings.Count(string(rows), large) != 2 {
		t.Fatalf("got %d bytes of results, %v, want both outputs in them", len(rows), err)
	}
	outputs, _ := filepath.Glob(filepath.Join(moved.OutputsDir(), "*.out"))
	if len(outputs) != 2 {
		t.Fatalf("got outputs %v, want two", outputs)
	}
	for _, path := range outputs {
		_ = os.Remove(moved.ResultsMetaFile())
		if err := os.WriteFile(path, []byte(large[1:]+"y"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := update(); !errors.Is(err, job.ErrFiles) || !strings.Contains(err.Error(), path) {
			t.Errorf("got %v, want %s told", err, path)
		}
		if err := os.WriteFile(path, []byte(large), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func statusesOf(settled int) (s errorpolicy.Statuses) {
	for i := range settled {
		s.Set(i, errorpolicy.Succeeded)
	}
	return s
}
