package mapreduce

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/retry"
)

// slow returns a workflow over n numbers whose attempts are stragglers after some time.
func slow(n, slots int, after string, stop bool, more string) string {
	return workflowOf(n, slots, "") + fmt.Sprintf("  straggler: {after: %s, stop: %v}\n", after, stop) + more
}

// attemptsTold returns what a log says of the attempts at an item, with the seconds since the job began.
func attemptsTold(all []events.Record, id string) (list []string) {
	for _, r := range all {
		text := ""
		switch e := r.Event.(type) {
		case events.AgentStarted:
			text = fmt.Sprint("start ", e.Attempt)
		case events.AgentStraggling:
			text = fmt.Sprint("slow ", e.Attempt)
		case events.AgentCompleted:
			text = fmt.Sprint("done ", e.Attempt)
		case events.AgentFailed:
			text = fmt.Sprint(string(e.Action), " ", e.Attempt)
		case events.AgentInterrupted:
			text = fmt.Sprint("back ", e.Attempt)
		}
		if text != "" && events.Subject(r.Event) == id {
			list = append(list, fmt.Sprintf("%d %s", int(r.Time.Sub(all[0].Time).Round(time.Second)/time.Second), text))
		}
	}
	return list
}

// A straggler that is stopped is a timeout like any: the policy decides what follows.
func TestAStragglerThatIsStoppedHasTimedOut(t *testing.T) {
	const again = "error_policy: {retry_config: {attempts: 2, backoff: fixed, initial_delay: 2s, jitter: false}}\n"
	for name, c := range map[string]struct {
		more string
		want []string
	}{
		"it fails":             {"", []string{"0 start 1", "5 slow 1", "5 dlq 1"}},
		"it is tried again":    {again, []string{"0 start 1", "5 slow 1", "5 retry 1", "7 start 2", "8 done 2"}},
		"timeout_action":       {"  timeout_config: {timeout_action: skip}\n", []string{"0 start 1", "5 slow 1", "5 skip 1"}},
		"a handler is of none": {"handlers: {h: [{shell: h}]}\nerror_policy: {on_item_failure: custom:h}\n", []string{"0 start 1", "5 slow 1", "5 dlq 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config := config(t, fake(func(k call) answer {
					if k.item == "item_0" && k.attempt == "1" {
						return answer{takes: time.Hour}
					}
					return answer{takes: time.Second}
				}))
				r := run(t, config, slow(3, 2, "5s", true, c.more))
				all := recordsOf(t, r.Job)
				if got := attemptsTold(all, "item_0"); r.State != jobs.Completed || !slices.Equal(got, c.want) {
					t.Errorf("%s: got %q\nwant %q", r.State, got, c.want)
				}
				failed, _ := told[events.AgentFailed](all)
				if len(failed) != 1 || failed[0].ErrorType != retry.TypeTimeout || failed[0].DurationMS < 5000 {
					t.Errorf("got %+v, want one timeout after 5s", failed)
				}
			})
		})
	}
}

// The log of an earlier version may have two attempts at an item. Their numbers are not used again, whichever of them has counted.
func TestSecondAttemptsOfAnEarlierVersionAreReadStill(t *testing.T) {
	s := job.NewFold(errorpolicy.Policy{})
	for i, e := range []events.Event{
		events.JobStarted{},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "item_0", Attempt: 1}},
		events.AgentDuplicated{AttemptID: events.AttemptID{ItemID: "item_0", Attempt: 2}, Of: 1},
		events.AgentCompleted{AttemptID: events.AttemptID{ItemID: "item_0", Attempt: 2}},
		events.AgentSuperseded{AttemptID: events.AttemptID{ItemID: "item_0", Attempt: 1}, By: 2},
		events.AgentStarted{AttemptID: events.AttemptID{ItemID: "item_1", ItemIndex: 1, Attempt: 1}},
		events.AgentDuplicated{AttemptID: events.AttemptID{ItemID: "item_1", ItemIndex: 1, Attempt: 2}, Of: 1},
		events.AgentSuperseded{AttemptID: events.AttemptID{ItemID: "item_1", ItemIndex: 1, Attempt: 1}, By: 2},
		events.JobResumed{},
	} {
		s.Apply(events.Record{Seq: int64(i + 1), Time: time.Unix(int64(i), 0), Event: e})
	}
	if s.Status.At(0) != errorpolicy.Succeeded || len(s.Running) != 0 || s.NextNumber(1) != 3 {
		t.Errorf("got %v, %d running, and attempt %d next, want a success, none, and 3", s.Status.At(0), len(s.Running), s.NextNumber(1))
	}
}

// Without stop a straggler is told once, and nothing else changes.
func TestAStragglerIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(func(k call) answer {
			if k.item == "item_3" {
				return answer{takes: 5 * time.Minute}
			}
			return answer{takes: 2 * time.Second}
		}))
		r := run(t, c, slow(40, 4, "3×p95", false, ""))
		slow, at := told[events.AgentStraggling](recordsOf(t, r.Job))
		if len(slow) != 1 || slow[0].ItemID != "item_3" || slow[0].Attempts < 20 {
			t.Fatalf("got %+v, want one of item_3, found by at least 20 others", slow)
		}
		if at[0] < 6*time.Second || at[0] > 16*time.Second { // 20 have succeeded after some 14s
			t.Errorf("it was told after %s, want as soon as 20 others have succeeded and it has taken 3 times as long", at[0])
		}
	})
}

// Waits for the next try of a step do not make an attempt a straggler, and what they make longer is no measure for others.
func TestAnAttemptThatWaitsForItsNextTryIsNoStraggler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tried := false
		c := config(t, fake(func(k call) answer {
			if k.item == "item_1" && !tried {
				tried = true
				return answer{takes: time.Second, code: 1}
			}
			return answer{takes: 2 * time.Second}
		}))
		source := strings.Replace(slow(3, 2, "5s", true, ""), "shell: work", "shell: work\n      retry_config: {attempts: 2, backoff: fixed, initial_delay: 1m, max_delay: 2m}", 1)
		for _, park := range []string{"", "  park_after: never\n"} {
			tried = false
			r := run(t, c, source+park)
			if slow, _ := told[events.AgentStraggling](recordsOf(t, r.Job)); r.Metrics.Successful != 3 || len(slow) > 0 {
				t.Errorf("%s: got %d successes and %+v, want 3 and no straggler", park, r.Metrics.Successful, slow)
			}
		}
	})
}
