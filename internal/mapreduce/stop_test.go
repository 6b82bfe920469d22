package mapreduce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/process"
)

var errEnough = errors.New("enough for now")

// interrupted runs a job and stops it again and again, every second time without grace, until it is done.
func interrupted(t *testing.T, c Config, source string, after func() time.Duration) Result {
	t.Helper()
	once := func(n int, run func(context.Context, Config) (Result, error)) Result {
		stop, cancelStop := context.WithCancelCause(t.Context())
		defer cancelStop(nil)
		kill, cancelKill := context.WithCancelCause(t.Context())
		defer cancelKill(nil)
		c.Stop = stop
		timer := time.AfterFunc(after(), func() {
			cancelStop(errEnough)
			if n%2 == 1 {
				cancelKill(fmt.Errorf("%w: %w", errEnough, process.ErrKill))
			}
		})
		defer timer.Stop()
		r, err := run(kill, c)
		if err != nil {
			t.Fatalf("run %d: %v", n, err)
		}
		return r
	}
	r := once(0, func(ctx context.Context, c Config) (Result, error) {
		return Run(ctx, c, parse(t, source), []byte(source))
	})
	for n := 1; r.State == jobs.Stopped; n++ {
		place := r.Job
		r = once(n, func(ctx context.Context, c Config) (Result, error) { return Resume(ctx, c, place) })
	}
	if r.State != jobs.Completed {
		t.Fatalf("got state %s (%s), want %s", r.State, r.Reason, jobs.Completed)
	}
	return r
}

// settledOnce holds that each of n items was settled once, and that each attempt ended which had begun.
func settledOnce(t *testing.T, place jobs.Job, n int) {
	t.Helper()
	settled, running := map[string]int{}, map[string]bool{}
	for _, rec := range recordsOf(t, place) {
		switch e := rec.Event.(type) {
		case events.AgentStarted:
			running[e.ItemID] = true
		case events.AgentInterrupted:
			delete(running, e.ItemID)
		case events.AgentCompleted:
			settled[e.ItemID]++
			delete(running, e.ItemID)
		case events.AgentFailed:
			delete(running, e.ItemID)
			if e.Action != errorpolicy.Retry {
				settled[e.ItemID]++
			}
		}
	}
	if len(settled) != n || len(running) > 0 {
		t.Errorf("got %d items settled and %v still running, want %d and none", len(settled), running, n)
	}
	for id, times := range settled {
		if times != 1 {
			t.Errorf("%s: settled %d times, want once", id, times)
		}
	}
}

// A goroutine that were left would be one that the bubble cannot end without.
func TestAJobThatIsStoppedAgainAndAgainSettlesEveryItemOnce(t *testing.T) {
	for durability, items := range map[events.Durability]int{events.None: 400, events.Strict: 40} { // where each sync takes its time
		t.Run(string(durability), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rnd, mu := rand.New(rand.NewPCG(3, 4)), sync.Mutex{}
				below := func(n int) int {
					mu.Lock()
					defer mu.Unlock()
					return rnd.IntN(n)
				}
				c := config(t, fake(func(call) answer {
					return answer{takes: time.Duration(below(3000)) * time.Millisecond, code: below(3)}
				}))
				c.Durability, c.Grace = durability, time.Second
				source := workflowOf(items, 16, "error_policy:\n  on_item_failure: retry\n  retry_config: {max_attempts: 3, initial_delay: 1s, jitter: true}\n")
				r := interrupted(t, c, source, func() time.Duration { return time.Duration(100+below(9000)) * time.Millisecond })
				settledOnce(t, r.Job, items)
				if m := r.Metrics; m.Successful+m.Failed != items {
					t.Errorf("got %d successful and %d failed, want %d in all", m.Successful, m.Failed, items)
				}
			})
		})
	}
}

func TestNoProcessAndNoGoroutineIsLeftOfAJob(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the commands need a POSIX sh")
	}
	c := config(t, nil)
	c.Environ = os.Environ()
	c.Grace = 20 * time.Millisecond
	const items = 120
	source := strings.Replace(workflowOf(items, 8, ""), "shell: work", `shell: "(trap '' TERM; sleep 1000) & sleep 0.02"`, 1)
	rnd, runs := rand.New(rand.NewPCG(5, 6)), 0
	r := interrupted(t, c, source, func() time.Duration {
		runs++ // the longer it takes here, the later it is stopped, so that it comes to its end anywhere
		return time.Duration(40+rnd.IntN(150)+5*runs) * time.Millisecond
	})
	settledOnce(t, r.Job, items)
	if left := remaining(func() []string { return processesOf(r.Job.ID) }); len(left) > 0 {
		t.Errorf("processes of the job are left: %v", left)
	}
	if left := remaining(goroutines); len(left) > 0 {
		t.Errorf("%d goroutines are left, the first:\n%s", len(left), left[0])
	}
}

// remaining asks until nothing is left: what was killed, or has said that it is done, is there for a moment still. It gives up when that
// is no longer the reason.
func remaining(ask func() []string) (left []string) {
	for end := time.Now().Add(time.Minute); ; {
		if left = ask(); len(left) == 0 || time.Now().After(end) {
			return left
		}
	}
}

// processesOf returns the processes that were started for a job, where the system shows them.
func processesOf(id string) (found []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		if env, err := os.ReadFile(f); err == nil && bytes.Contains(env, []byte("PRODIGY_JOB_ID="+id+"\x00")) {
			found = append(found, f)
		}
	}
	return found
}

// goroutines returns the stacks of those that run code of the program, besides the one that asks.
func goroutines() (found []string) {
	buf := make([]byte, 1<<20)
	stacks := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	for _, s := range stacks[1:] { // the first is the caller
		if strings.Contains(s, "prodigy/internal/") && !strings.Contains(s, "testing.tRunner") {
			found = append(found, s)
		}
	}
	return found
}
