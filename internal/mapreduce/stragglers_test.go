package mapreduce

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"prodigy/internal/control"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/testenv"
)

// slow returns a workflow over n numbers whose attempts are stragglers after some time.
func slow(n, slots int, after string, duplicate bool, more string) string {
	return strings.Replace(workflowOf(n, slots, ""), "    - shell: work\n", "    - shell: work\n      idempotent: true\n", 1) +
		fmt.Sprintf("  straggler: {after: %s, duplicate: %v}\n", after, duplicate) + more
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
		case events.AgentDuplicated:
			text = fmt.Sprint("double ", e.Attempt, " of ", e.Of)
		case events.AgentSuperseded:
			text = fmt.Sprint("superseded ", e.Attempt, " by ", e.By)
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

// Whichever of two attempts counts, the other one takes no room from the tests of a breaker that is half open.
func TestASupersededAttemptIsNoTestOfTheBreakerAnyMore(t *testing.T) {
	for _, counts := range []int{1, 2} {
		s := newState(parse(t, slow(3, 2, "5s", true, "error_policy: {circuit_breaker: {failure_threshold: 1, timeout: 1m, half_open_requests: 2, success_threshold: 5}}\n")).ErrorPolicy)
		now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		seq := int64(0)
		apply := func(e events.Event) {
			seq++
			s.apply(events.Record{Seq: seq, Time: now, Event: e})
		}
		apply(events.JobStarted{})
		apply(events.AgentStarted{ItemID: "item_0", Attempt: 1})
		apply(events.AgentFailed{ItemID: "item_0", Attempt: 1, Action: errorpolicy.DLQ})
		now = now.Add(time.Minute)
		apply(events.AgentStarted{ItemID: "item_1", ItemIndex: 1, Attempt: 1})
		apply(events.AgentDuplicated{ItemID: "item_1", ItemIndex: 1, Attempt: 2, Of: 1})
		if a := s.Policy.Admit("", now); a.Verdict != errorpolicy.Hold {
			t.Fatalf("with two tests: %v, want that it holds", a.Verdict)
		}
		apply(events.AgentCompleted{ItemID: "item_1", ItemIndex: 1, Attempt: counts})
		apply(events.AgentStarted{ItemID: "item_2", ItemIndex: 2, Attempt: 1})
		if a := s.Policy.Admit("", now); a.Verdict != errorpolicy.Run {
			t.Errorf("with one test, after attempt %d: %v, want that another one runs", counts, a.Verdict)
		}
	}
}

// Each way in which two attempts at an item can end leads to one outcome, and the item has used up no more tries than with one attempt.
func TestTheFirstSuccessOfTwoAttemptsCounts(t *testing.T) {
	for name, c := range map[string]struct {
		first, second, third answer
		more                 string
		want                 []string
	}{
		"the duplicate is faster": {answer{takes: time.Minute}, answer{takes: 2 * time.Second}, answer{}, "", []string{
			"0 start 1", "5 slow 1", "5 double 2 of 1", "7 done 2", "7 superseded 1 by 2",
		}},
		"the straggler is faster": {answer{takes: 8 * time.Second}, answer{takes: time.Minute}, answer{}, "", []string{
			"0 start 1", "5 slow 1", "5 double 2 of 1", "8 done 1", "8 superseded 2 by 1",
		}},
		"the straggler fails": {answer{takes: 8 * time.Second, code: 1}, answer{takes: 10 * time.Second}, answer{}, "", []string{
			"0 start 1", "5 slow 1", "5 double 2 of 1", "8 superseded 1 by 2", "15 done 2",
		}},
		"the duplicate fails, and no other follows": {answer{takes: time.Minute}, answer{takes: 2 * time.Second, code: 1}, answer{}, "error_policy: {circuit_breaker: {failure_threshold: 1}}\n", []string{
			"0 start 1", "5 slow 1", "5 double 2 of 1", "7 superseded 2 by 1", "60 done 1",
		}},
		"both fail": {answer{takes: 8 * time.Second, code: 1}, answer{takes: 10 * time.Second, code: 1}, answer{}, "", []string{
			"0 start 1", "5 slow 1", "5 double 2 of 1", "8 superseded 1 by 2", "15 dlq 2",
		}},
		"both fail, and are tried again once": {
			answer{takes: 10 * time.Second, code: 1},
			answer{takes: 2 * time.Second, code: 1},
			answer{takes: time.Second, code: 1},
			"error_policy:\n  on_item_failure: retry\n  retry_config: {max_attempts: 2, backoff: fixed, initial_delay: 5s}\n",
			[]string{
				"0 start 1", "5 slow 1", "5 double 2 of 1", "7 superseded 2 by 1", "10 retry 1", "15 start 3", "16 dlq 3",
			},
		},
		"each attempt of two may have a duplicate": {
			answer{takes: 8 * time.Second, code: 1},
			answer{takes: 4 * time.Second, code: 1},
			answer{takes: time.Minute},
			"error_policy:\n  on_item_failure: retry\n  retry_config: {max_attempts: 2, backoff: fixed, initial_delay: 2s}\n",
			[]string{
				"0 start 1", "5 slow 1", "5 double 2 of 1", "8 superseded 1 by 2", "9 retry 2", "11 start 3", "16 slow 3", "16 double 4 of 3", "17 done 4", "17 superseded 3 by 4",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config := config(t, fake(func(k call) answer {
					if k.item != "item_0" {
						return answer{takes: time.Second}
					}
					return map[string]answer{"1": c.first, "2": c.second, "3": c.third, "4": {takes: time.Second}}[k.attempt]
				}))
				r := run(t, config, slow(3, 2, "5s", true, c.more))
				all := recordsOf(t, r.Job)
				if got := attemptsTold(all, "item_0"); r.State != Completed || !slices.Equal(got, c.want) {
					t.Errorf("%s: got %q\nwant %q", r.State, got, c.want)
				}
				if opened, _ := told[events.CircuitOpen](all); len(opened) > 0 {
					t.Errorf("got %d openings of the breaker, want none", len(opened))
				}
				checkSettledOrdered(t, all)
			})
		})
	}
}

// checkSettledOrdered checks that each attempt that has begun has one end, and each item at most one that is final.
func checkSettledOrdered(t *testing.T, all []events.Record) {
	t.Helper()
	open, final := map[string]bool{}, map[string]bool{}
	end := func(id string, number int) {
		key := fmt.Sprint(id, "/", number)
		if !open[key] {
			t.Errorf("attempt %s ends, and has not begun, or has ended before", key)
		}
		delete(open, key)
	}
	settle := func(id string) {
		if final[id] {
			t.Errorf("%s is settled twice", id)
		}
		final[id] = true
	}
	for _, r := range all {
		switch e := r.Event.(type) {
		case events.AgentStarted:
			open[fmt.Sprint(e.ItemID, "/", e.Attempt)] = true
		case events.AgentDuplicated:
			open[fmt.Sprint(e.ItemID, "/", e.Attempt)] = true
		case events.AgentSuperseded:
			end(e.ItemID, e.Attempt)
		case events.AgentInterrupted:
			end(e.ItemID, e.Attempt)
		case events.AgentCompleted:
			end(e.ItemID, e.Attempt)
			settle(e.ItemID)
		case events.AgentFailed:
			end(e.ItemID, e.Attempt)
			if !e.Action.RunsAgain() {
				settle(e.ItemID)
			}
		}
	}
	if len(open) > 0 {
		t.Errorf("attempts without an end: %v", open)
	}
}

// Two attempts that succeed in the same moment give one outcome.
func TestTwoAttemptsThatEndAtOnceGiveOneOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(func(k call) answer {
			if k.item != "item_0" {
				return answer{takes: time.Second}
			}
			return answer{takes: map[string]time.Duration{"1": 12 * time.Second, "2": 7 * time.Second}[k.attempt]}
		}))
		r := run(t, c, slow(2, 2, "5s", true, ""))
		all := recordsOf(t, r.Job)
		checkSettledOrdered(t, all)
		if gone, _ := told[events.AgentSuperseded](all); r.Metrics.Successful != 2 || len(gone) != 1 {
			t.Errorf("got %d successes and %d superseded attempts, want 2 and 1", r.Metrics.Successful, len(gone))
		}
	})
}

// A stop, a cancel and a skip while both attempts run leave one item with one outcome, or with none and a next attempt.
func TestWhatPeopleAskForWhileTwoAttemptsRun(t *testing.T) {
	for name, c := range map[string]struct {
		ask  control.Request
		want []string
	}{
		"skip":   {control.Request{Do: control.Skip, Items: []control.Item{{ID: "item_0"}}, By: "me"}, []string{"superseded 2 by 1", "skip 1"}},
		"cancel": {control.Request{Do: control.Cancel, By: "me"}, []string{"superseded 2 by 1", "back 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config := config(t, fake(func(k call) answer {
					if k.item == "item_0" {
						return answer{takes: time.Hour}
					}
					return answer{takes: time.Second}
				}))
				config.Control = func(_ jobs.Job, ask func(control.Request) control.Answer) (func() error, error) {
					time.AfterFunc(20*time.Second, func() { ask(c.ask) })
					return func() error { return nil }, nil
				}
				r := run(t, config, slow(2, 2, "5s", true, ""))
				all := recordsOf(t, r.Job)
				checkSettledOrdered(t, all)
				got := attemptsTold(all, "item_0")
				for i := range got {
					_, got[i], _ = strings.Cut(got[i], " ")
				}
				ends := got[max(len(got)-2, 0):]
				other := []string{strings.ReplaceAll(c.want[0], "2 by 1", "1 by 2"), strings.ReplaceAll(c.want[1], "1", "2")}
				if !slices.Equal(ends, c.want) && !slices.Equal(ends, other) {
					t.Errorf("got %q, want %q or %q", ends, c.want, other)
				}
				if c.ask.Do == control.Cancel {
					config.Force, config.Control = true, nil
					config.Runner = fake(func(call) answer { return answer{takes: time.Second} })
					again, err := Resume(t.Context(), config, r.Job)
					if err != nil || again.Metrics.Successful != 2 {
						t.Errorf("resumed: got %v with %d successes, want 2", err, again.Metrics.Successful)
					}
				}
			})
		})
	}
}

// Without duplicate a straggler is told once, and nothing else changes.
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
		if doubles, _ := told[events.AgentDuplicated](recordsOf(t, r.Job)); len(doubles) > 0 {
			t.Errorf("got %d second attempts, want none", len(doubles))
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
		source := strings.Replace(slow(3, 2, "5s", true, ""), "idempotent: true", "idempotent: true\n      retry_config: {attempts: 2, backoff: fixed, initial_delay: 1m, max_delay: 2m}", 1)
		for _, park := range []string{"", "  park_after: never\n"} {
			tried = false
			r := run(t, c, source+park)
			if slow, _ := told[events.AgentStraggling](recordsOf(t, r.Job)); r.Metrics.Successful != 3 || len(slow) > 0 {
				t.Errorf("%s: got %d successes and %+v, want 3 and no straggler", park, r.Metrics.Successful, slow)
			}
		}
	})
}

// Whatever attempts take and however they end: each has one end, each item one outcome, there are never more duplicates than allowed, and none begins
// while an item waits to begin.
func TestDuplicatesTakeOnlySlotsThatNothingElseNeeds(t *testing.T) {
	for seed := range uint64(testenv.OneIn(3, 1) * 3) {
		synctest.Test(t, func(t *testing.T) {
			const items = 30
			slots := 2 + int(seed)*9
			c := config(t, fake(func(k call) answer {
				var h uint64 = seed + 1
				for _, b := range []byte(k.item + "/" + k.attempt) {
					h = (h ^ uint64(b)) * 1099511628211
				}
				a := answer{takes: time.Duration(1+h>>20%4) * time.Second, code: map[bool]int{true: 1}[h>>30%5 == 0]}
				if h>>40%4 == 0 {
					a.takes *= 20
				}
				return a
			}))
			r := run(t, c, slow(items, slots, "6s", true, "error_policy:\n  on_item_failure: retry\n  retry_config: {max_attempts: 2, backoff: fixed, initial_delay: 5s}\n"))
			all := recordsOf(t, r.Job)
			checkSettledOrdered(t, all)
			begun, doubles, most := map[string]bool{}, map[string]int{}, 0
			for _, rec := range all {
				switch e := rec.Event.(type) {
				case events.AgentStarted:
					begun[e.ItemID] = true
				case events.AgentDuplicated:
					if len(begun) != items {
						t.Errorf("seed %d: a duplicate begins when %d of %d items have begun", seed, len(begun), items)
					}
					doubles[e.ItemID]++
					most = max(most, len(doubles))
				case events.AgentSuperseded:
					delete(doubles, e.ItemID)
				}
			}
			if most == 0 || most > limit.MostDuplicates(slots) {
				t.Errorf("seed %d: got %d duplicates at once, want at least one, and at most %d", seed, most, limit.MostDuplicates(slots))
			}
			if n := r.Metrics.Successful + r.Metrics.Failed; r.State != Completed || n != items {
				t.Errorf("seed %d: %s with %d outcomes, want %d", seed, r.State, n, items)
			}
		})
	}
}

// A job with a long tail ends when its last item would have ended without it.
func TestATailIsCutShort(t *testing.T) {
	took := func(duplicate bool) (d time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			c := config(t, fake(func(k call) answer {
				if k.item == "item_25" && k.attempt == "1" {
					return answer{takes: time.Hour}
				}
				return answer{takes: 10 * time.Second}
			}))
			d = run(t, c, slow(30, 5, "3xp95", duplicate, "")).Duration
		})
		return d
	}
	if with, without := took(true), took(false); without < time.Hour || with > 3*time.Minute {
		t.Errorf("got %s with duplicates and %s without, want less than 3m and an hour", with, without)
	}
}
