package mapreduce

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/process"
)

// limited returns a runner that has room for so many commands at once.
func limited(most int, shortage error, reply func(call) answer) agent.Runner {
	var mu sync.Mutex
	running := 0
	next := fake(reply)
	return func(ctx context.Context, c process.Command) (process.Exit, error) {
		mu.Lock()
		if running >= most {
			mu.Unlock()
			return process.Exit{Code: -1}, fmt.Errorf("start sh: %w", shortage)
		}
		running++
		mu.Unlock()
		defer func() {
			mu.Lock()
			running--
			mu.Unlock()
		}()
		return next(ctx, c)
	}
}

func TestAShortageMakesFewerSlotsOfManyAndNoFailures(t *testing.T) {
	for _, shortage := range []error{syscall.EMFILE, syscall.EAGAIN, syscall.ENOMEM} {
		synctest.Test(t, func(t *testing.T) {
			var notices []string
			c := config(t, limited(6, shortage, func(call) answer { return answer{takes: time.Second} }))
			c.Notice = func(text string) { notices = append(notices, text) }
			r := run(t, c, workflowOf(60, 30, ""))
			settledOnce(t, r.Job, 60)
			if r.State != jobs.Completed || r.Metrics.Successful != 60 {
				t.Errorf("%v: got %s with %+v, want 60 successful", shortage, r.State, r.Metrics)
			}
			if len(notices) == 0 || len(notices) > 5 || !strings.Contains(notices[0], ": continuing with ") {
				t.Errorf("%v: got notices %q, want a few that say how many slots are left", shortage, notices)
			}
			started, _ := told[events.AgentStarted](recordsOf(t, r.Job))
			if len(started) != 60 {
				t.Errorf("%v: got %d attempts, want one for each item", shortage, len(started))
			}
		})
	}
}

func TestWhatProdigyItselfCannotDoGivesTheAttemptBackAndCanBeResumed(t *testing.T) {
	for _, own := range []error{syscall.EMFILE, syscall.ENOMEM, syscall.ENOSPC, errors.New("no such luck")} {
		for _, policy := range []string{"on_item_failure: skip", "on_item_failure: retry", "max_failures: 1", "circuit_breaker: {failure_threshold: 1}"} {
			synctest.Test(t, func(t *testing.T) {
				done := 0
				c := config(t, limited(0, own, nil))
				r := run(t, c, workflowOf(9, 4, "error_policy: {"+policy+"}\n"))
				all := recordsOf(t, r.Job)
				started, _ := told[events.AgentStarted](all)
				back, _ := told[events.AgentInterrupted](all)
				if r.State != jobs.Failed || !errors.Is(r.Cause, own) || len(started) == 0 || len(back) != len(started) {
					t.Errorf("got %s by %v with %d started and %d given back, want it failed by %v and all given back", r.State, r.Cause, len(started), len(back), own)
				}
				if n := r.Metrics.Failed + r.Metrics.Skipped + r.Metrics.Rejected; n != 0 || len(deadIDs(t, r.Job)) != 0 {
					t.Errorf("got %d that failed, want none: %+v", n, r.Metrics)
				}
				if !strings.Contains(back[0].Reason, own.Error()) {
					t.Errorf("given back by %q, want %v", back[0].Reason, own)
				}
				c.Runner = fake(func(c call) answer {
					if c.attempt != "1" {
						t.Errorf("%s: got attempt %s, want its first", c.item, c.attempt)
					}
					done++
					return answer{}
				})
				c.MaxParallel = 1
				again, err := Resume(t.Context(), c, r.Job)
				if err != nil || again.State != jobs.Completed || again.Metrics.Successful != 9 || done != 9 {
					t.Errorf("resumed: got %s %v with %+v, want 9 successful", again.State, err, again.Metrics)
				}
			})
		}
	}
}

func TestALetterWhoseRetryProdigyCouldNotRunIsStillDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(failing("item_1")))
		r := run(t, c, workflowOf(3, 2, ""))
		c.Runner = limited(0, syscall.EMFILE, nil)
		again, err := RetryDead(t.Context(), c, r.Job, these("item_1"), false)
		if err != nil || again.State != jobs.Failed || !errors.Is(again.Cause, syscall.EMFILE) || again.Reprocessed != 0 {
			t.Errorf("got %+v %v, want it failed by the shortage", again, err)
		}
		if got := deadIDs(t, r.Job); len(got) != 1 || got[0] != "item_1" {
			t.Errorf("got dead letters %v, want item_1", got)
		}
	})
}
