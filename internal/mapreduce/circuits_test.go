package mapreduce

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
)

// guarded returns a map workflow over n items, one at a time, whose step opens its breaker after two failures, for an hour.
func guarded(n int) string {
	return strings.Replace(workflowOf(n, 1, ""), "- shell: work", "- shell: work\n      id: call\n"+
		"      retry_config: {attempts: 1, circuit_breaker: {failure_threshold: 2, success_threshold: 1, half_open_requests: 1, timeout: 1h}}", 1)
}

// The breaker of a step is taken up as the log has it: still open, and half-open when its time has come.
func TestTheBreakerOfAStepIsStillOpenAfterAResume(t *testing.T) {
	for name, tt := range map[string]struct {
		later time.Duration
		ran   int64
	}{
		"before its timeout": {later: time.Minute, ran: 0},
		"after its timeout":  {later: 2 * time.Hour, ran: 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ran atomic.Int64
				mended := false
				c := config(t, fake(func(call) answer {
					ran.Add(1)
					if mended {
						return answer{takes: time.Second}
					}
					return answer{takes: time.Second, code: 1}
				}))
				whole := run(t, c, guarded(6))
				place := copyJob(t, c, whole.Job, upTo(readLog(t, whole.Job), `"type":"CircuitOpen"`))
				time.Sleep(tt.later)
				mended = true
				ran.Store(0)
				r, err := Resume(t.Context(), withHome(c, place), place.job)
				if err != nil || r.State != jobs.Completed {
					t.Fatalf("got %s (%s), %v, want completed", r.State, r.Reason, err)
				}
				// The item in flight at the crash runs as well: its failure had not reached the log.
				if got := ran.Load(); got != tt.ran && got != tt.ran+1 {
					t.Errorf("got %d runs of the step, want %d, or one more", got, tt.ran)
				}
			})
		})
	}
}

// Whoever sends dead letters again says that the cause is gone.
func TestARetryOfDeadLettersBeginsWithClosedBreakers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := true
		c := config(t, fake(func(call) answer {
			if broken {
				return answer{code: 1}
			}
			return answer{}
		}))
		whole := run(t, c, guarded(4))
		broken = false
		r, err := RetryDead(t.Context(), c, whole.Job, these("item_0", "item_1", "item_2", "item_3"), false)
		if err != nil || r.Recovered != 4 {
			t.Errorf("got %d recovered, %v, want 4", r.Recovered, err)
		}
	})
}

// Steps of two phases can have the same label; their breakers have nothing to do with each other.
func TestTheBreakersOfTwoPhasesAreToldApart(t *testing.T) {
	s := job.NewFold(parse(t, guarded(1)).ErrorPolicy)
	for i, e := range []events.Event{
		events.JobStarted{},
		events.PhaseStarted{Phase: "setup"},
		events.CircuitOpen{Scope: "call", ConsecutiveFailures: 5},
		events.PhaseCompleted{Phase: "setup"},
		events.PhaseStarted{Phase: "map"},
		events.JobResumed{Reason: events.ForResume},
		events.CircuitHalfOpen{Scope: "call"},
		events.CircuitOpen{Scope: "workflow"},
	} {
		s.Apply(events.Record{Seq: int64(i + 1), Event: e})
	}
	if got := len(s.Circuits["map"]); got != 1 {
		t.Errorf("breakers of the map phase: got %d, want 1", got)
	}
	if got := s.Circuits["setup"]["call"].ConsecutiveFailures; got != 5 {
		t.Errorf("failures of the breaker of setup: got %d, want 5", got)
	}
}

// upTo returns a log up to the first line that contains the text.
func upTo(log, text string) string {
	at := strings.Index(log, text)
	return log[:at+strings.Index(log[at:], "\n")+1]
}
