package mapreduce

import (
	"context"
	"errors"
	"fmt"
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
	"prodigy/internal/limit"
	"prodigy/internal/retry"
)

// steered runs a job in a bubble while steer asks it for things.
func steered(t *testing.T, c Config, source string, steer func(ask func(job.Request) job.Answer)) (r Result) {
	t.Helper()
	c.Control = func(_ jobs.Job, ask func(job.Request) job.Answer) (func() error, error) {
		over := make(chan struct{})
		go func() {
			defer close(over)
			steer(func(q job.Request) job.Answer {
				q.By = "alice"
				return ask(q)
			})
		}()
		return func() error { <-over; return nil }, nil
	}
	r, err := Run(t.Context(), c, parse(t, source), []byte(source))
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	return r
}

// timeline notes when fake commands begin.
type timeline struct {
	mu    sync.Mutex
	began time.Time
	at    []time.Duration
}

func (l *timeline) runner(takes time.Duration) func(call) answer {
	return func(call) answer {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.at = append(l.at, time.Since(l.began).Round(time.Second))
		return answer{takes: takes}
	}
}

func done(t *testing.T, a job.Answer, words string) {
	t.Helper()
	if !a.Done || !strings.Contains(a.Text, words) {
		t.Errorf("got %t %q, want that it is done, with %q", a.Done, a.Text, words)
	}
}

func refusedWith(t *testing.T, a job.Answer, words string) {
	t.Helper()
	if a.Done || !strings.Contains(a.Text, words) {
		t.Errorf("got %t %q, want that it is refused, with %q", a.Done, a.Text, words)
	}
}

func TestAPausedJobStartsNothingUntilItContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &timeline{began: time.Now()}
		r := steered(t, config(t, fake(l.runner(2*time.Second))), workflowOf(6, 2, ""), func(ask func(job.Request) job.Answer) {
			time.Sleep(3 * time.Second)
			done(t, ask(job.Request{Do: job.Pause}), "2 items still running")
			done(t, ask(job.Request{Do: job.Pause}), "already paused by alice")
			time.Sleep(time.Hour)
			done(t, ask(job.Request{Do: job.Continue}), "continued")
			done(t, ask(job.Request{Do: job.Continue}), "not paused")
		})
		if want := []time.Duration{0, 0, 2 * time.Second, 2 * time.Second, 3603 * time.Second, 3603 * time.Second}; !slices.Equal(l.at, want) || r.State != jobs.Completed || r.Metrics.Successful != 6 {
			t.Errorf("got starts at %v, and %s with %d successful, want %v, and completed with 6", l.at, r.State, r.Metrics.Successful, want)
		}
		all := recordsOf(t, r.Job)
		if paused, _ := told[events.PauseRequested](all); len(paused) != 1 || paused[0].By != "alice" {
			t.Errorf("got %v in the log, want one pause by alice", paused)
		}
	})
}

// Between two steps of a phase that runs once, before the next phase, and before the next try of a step.
func TestAPauseHoldsBackStepsAndPhases(t *testing.T) {
	for name, source := range map[string]string{
		"steps":  "mode: standard\ncommands:\n  - shell: a\n  - shell: b\n",
		"phases": workflowOf(1, 1, "reduce:\n  - shell: b\n"),
		"tries":  strings.Replace(workflowOf(1, 1, ""), "- shell: work", "- shell: work\n      retry_config: {attempts: 2, backoff: fixed, initial_delay: 3s}", 1),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &timeline{began: time.Now()}
				run := l.runner(2 * time.Second)
				c := config(t, fake(func(c call) answer {
					a := run(c)
					if name == "tries" && len(l.at) == 1 {
						a.code = 1
					}
					return a
				}))
				r := steered(t, c, source, func(ask func(job.Request) job.Answer) {
					time.Sleep(time.Second)
					done(t, ask(job.Request{Do: job.Pause}), "paused")
					time.Sleep(time.Minute)
					done(t, ask(job.Request{Do: job.Continue}), "continued")
				})
				if want := []time.Duration{0, 61 * time.Second}; r.State != jobs.Completed || !slices.Equal(l.at, want) {
					t.Errorf("got %s, starts at %v, want completed, and %v", r.State, l.at, want)
				}
			})
		})
	}
}

func TestADrainedJobEndsWithWhatRunsAndIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &timeline{began: time.Now()}
		c := config(t, fake(l.runner(time.Minute))) // longer than the grace
		r := steered(t, c, workflowOf(6, 2, ""), func(ask func(job.Request) job.Answer) {
			time.Sleep(time.Second)
			done(t, ask(job.Request{Do: job.Drain}), "2 items still running")
			refusedWith(t, ask(job.Request{Do: job.Scale, Slots: 3}), "stopping: drained by alice")
		})
		if r.State != jobs.Stopped || !r.AsAsked || r.Reason != "drained by alice" || r.Metrics.Successful != 2 {
			t.Fatalf("got %s (%s) with %d successful, want stopped, drained by alice, with 2", r.State, r.Reason, r.Metrics.Successful)
		}
		c.Control = nil
		if r, err := Resume(t.Context(), c, r.Job); err != nil || r.State != jobs.Completed || r.Metrics.Successful != 6 {
			t.Errorf("resumed: got %+v, %v, want completed with 6", r, err)
		}
	})
}

func TestADrainEndsAPhaseAfterItsStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &timeline{began: time.Now()}
		c := config(t, fake(l.runner(time.Minute)))
		r := steered(t, c, "mode: standard\ncommands:\n  - shell: a\n  - shell: b\n", func(ask func(job.Request) job.Answer) {
			time.Sleep(time.Second)
			done(t, ask(job.Request{Do: job.Drain}), "a step is still running")
		})
		if r.State != jobs.Stopped || !r.AsAsked || len(l.at) != 1 {
			t.Errorf("got %s (%s) after %d steps, want drained after 1", r.State, r.Reason, len(l.at))
		}
		c.Control = nil
		if r, err := Resume(t.Context(), c, r.Job); err != nil || r.State != jobs.Completed || len(l.at) != 2 {
			t.Errorf("resumed: got %s, %v after %d steps, want completed after 2", r.State, err, len(l.at))
		}
	})
}

func TestACancelledJobIsContinuedByForceOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &timeline{began: time.Now()}
		c := config(t, fake(l.runner(time.Hour)))
		r := steered(t, c, workflowOf(6, 2, ""), func(ask func(job.Request) job.Answer) {
			time.Sleep(time.Second)
			done(t, ask(job.Request{Do: job.Drain}), "draining")
			done(t, ask(job.Request{Do: job.Cancel}), "cancelled")
			done(t, ask(job.Request{Do: job.Cancel}), "already being cancelled by alice")
		})
		if took := time.Since(l.began); r.State != jobs.Cancelled || r.Reason != "cancelled by alice" || took > time.Minute {
			t.Fatalf("got %s (%s) after %s, want cancelled by alice within the grace", r.State, r.Reason, took)
		}
		if s, err := job.Summarize(r.Job); err != nil || s.State != jobs.Cancelled {
			t.Errorf("got %+v, %v, want cancelled", s, err)
		}
		c.Control = nil
		c.Runner = fake(l.runner(time.Second))
		var refused *job.RefusedError
		if _, err := Resume(t.Context(), c, r.Job); !errors.As(err, &refused) || !strings.Contains(err.Error(), "--force") {
			t.Errorf("got %v, want that --force is named", err)
		}
		c.Force = true
		if r, err := Resume(t.Context(), c, r.Job); err != nil || r.State != jobs.Completed || r.Metrics.Successful != 6 {
			t.Errorf("forced: got %+v, %v, want completed with 6", r, err)
		}
	})
}

func TestScalingChangesHowManyRunAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &timeline{began: time.Now()}
		c := config(t, fake(l.runner(10*time.Second)))
		r := steered(t, c, workflowOf(20, 2, ""), func(ask func(job.Request) job.Answer) {
			time.Sleep(time.Second)
			refusedWith(t, ask(job.Request{Do: job.Scale}), "prodigy pause")
			refusedWith(t, ask(job.Request{Do: job.Scale, Slots: 1 << 30}), "use at most")
			done(t, ask(job.Request{Do: job.Scale, Slots: 6}), "6 slots instead of 2")
			time.Sleep(time.Second)
			done(t, ask(job.Request{Do: job.Scale, Change: -5}), "1 slot instead of 6")
			time.Sleep(28 * time.Second)
			done(t, ask(job.Request{Do: job.Scale, Change: +2}), "3 slots instead of 1")
			time.Sleep(500 * time.Millisecond)
			done(t, ask(job.Request{Do: job.Drain}), "3 items")
		})
		s := func(n ...int) (at []time.Duration) {
			for _, n := range n {
				at = append(at, time.Duration(n)*time.Second)
			}
			return at
		}
		if want := s(0, 0, 1, 1, 1, 1, 11, 21, 30, 30); !slices.Equal(l.at, want) {
			t.Errorf("got starts at %v, want %v", l.at, want)
		}
		c.Control = nil
		began := len(l.at)
		l.began = time.Now()
		if _, err := Resume(t.Context(), c, r.Job); err != nil {
			t.Fatal(err)
		}
		if got := l.at[began:]; !slices.Equal(got[:4], s(0, 0, 0, 10)) {
			t.Errorf("resumed: got starts at %v, want 3 at once as before", got)
		}
	})
}

func TestSkippedItemsAreSettledOnceWhateverTheyWereDoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(func(c call) answer {
			if c.item == "item_0" {
				return answer{code: 1}
			}
			return answer{takes: time.Minute}
		}))
		source := workflowOf(6, 2, "error_policy:\n  on_item_failure: retry\n  retry_config: {max_attempts: 3, initial_delay: 1h}\n")
		r := steered(t, c, source, func(ask func(job.Request) job.Answer) {
			time.Sleep(time.Second)
			skip := func(indexes ...int) job.Answer {
				q := job.Request{Do: job.Skip}
				for _, i := range indexes {
					q.Items = append(q.Items, job.Item{ID: fmt.Sprintf("item_%d", i), Index: i})
				}
				return ask(q)
			}
			done(t, skip(0, 1, 5, 0, 5), "skipped: item_0, item_1, item_5")
			time.Sleep(time.Second)
			refusedWith(t, skip(2, 1), "item_1 already has an outcome")
			refusedWith(t, skip(5), "already")
			refusedWith(t, ask(job.Request{Do: job.Skip, Items: []job.Item{{ID: "item_2", Index: 3}}}), "no item item_2")
		})
		if m := r.Metrics; r.State != jobs.Completed || m.Successful != 3 || m.Skipped != 3 || m.ErrorTypes[retry.TypeSkipped] != 3 {
			t.Errorf("got %s, %+v, want 3 successful and 3 skipped", r.State, m)
		}
		checkSettledOnce(t, recordsOf(t, r.Job), 6)
	})
}

// What nobody wants any more does not keep the job alive until it could have started.
func TestSkippedItemsDoNotKeepTheJobWaiting(t *testing.T) {
	const failsOnce = "error_policy:\n  on_item_failure: retry\n  retry_config: {max_attempts: 2, initial_delay: 2s}\n"
	for name, c := range map[string]struct {
		source     string
		skip       []int
		successful int
	}{
		"for the turns of their keys":   {rated(2, `{limit: 1/h, burst: 1, per: "${item.host}"}`, "", "a", "a", "b", "a"), []int{1, 3}, 2},
		"for retries in turn":           {rated(2, `{limit: 1/h, burst: 1, per: "${item.host}"}`, "", "fails", "b") + failsOnce, []int{0}, 1},
		"for a window":                  {gated(4, `windows: ["05:00-06:00 UTC"]`), []int{0, 1, 2, 3}, 0},
		"for a turn that all have":      {rated(2, "{limit: 1/h, burst: 1}", "", "a", "a", "a"), []int{1, 2}, 1},
		"until the breaker is closed":   {workflowOf(3, 1, "error_policy:\n  circuit_breaker: {failure_threshold: 1, timeout: 2h, on_open: wait}\n"), []int{1, 2}, 0},
		"until the breaker of a is not": {rated(2, "1/s", "", "fails", "fails", "fails", "b") + "error_policy:\n  circuit_breaker: {failure_threshold: 1, timeout: 2h, on_open: wait, per: \"${item.host}\"}\n", []int{1, 2}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				config := config(t, fake(func(c call) answer {
					if strings.HasPrefix(name, "for retries") && c.item == "item_0" || strings.HasPrefix(name, "until") && c.item == "item_0" {
						return answer{code: 1}
					}
					return answer{takes: time.Second}
				}))
				r := steered(t, config, c.source, func(ask func(job.Request) job.Answer) {
					time.Sleep(10 * time.Second)
					q := job.Request{Do: job.Skip}
					for _, i := range c.skip {
						q.Items = append(q.Items, job.Item{ID: fmt.Sprintf("item_%d", i), Index: i})
					}
					done(t, ask(q), "skipped: item_")
				})
				if took := time.Since(began); r.State != jobs.Completed || r.Metrics.Successful != c.successful || r.Metrics.Skipped != len(c.skip) || took > time.Minute {
					t.Errorf("got %s after %s, %+v, want completed at once with %d successful", r.State, took, r.Metrics, c.successful)
				}
				checkSettledOnce(t, recordsOf(t, r.Job), r.Metrics.TotalItems)
			})
		})
	}
}

// A breaker that is half-open waits for the end of its test.
func TestASkippedTestOfTheBreakerLetsAnotherBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(func(c call) answer {
			switch c.item {
			case "item_0":
				return answer{code: 1}
			case "item_1":
				return answer{takes: 100 * time.Hour}
			}
			return answer{}
		}))
		source := workflowOf(4, 1, "error_policy:\n  circuit_breaker: {failure_threshold: 1, success_threshold: 1, half_open_requests: 1, timeout: 20s, on_open: wait}\n")
		r := steered(t, c, source, func(ask func(job.Request) job.Answer) {
			time.Sleep(time.Minute)
			done(t, ask(job.Request{Do: job.Skip, Items: []job.Item{{ID: "item_1", Index: 1}}}), "skipped: item_1")
		})
		if m := r.Metrics; m.Successful != 2 || m.Failed != 1 || m.Skipped != 1 {
			t.Errorf("got %+v, want 2 successful, 1 failed, 1 skipped", m)
		}
	})
}

func TestRetryNowEndsTheWaitOfItemsAndSteps(t *testing.T) {
	inSlot := strings.Replace(workflowOf(2, 1, ""), "- shell: work", "- shell: work\n      retry_config: {attempts: 2, backoff: fixed, initial_delay: 1h, max_delay: 2h}", 1)
	for name, source := range map[string]string{
		"items": workflowOf(2, 2, retriesAfterAnHour), "steps in their slots": inSlot, "parked steps": strings.Replace(inSlot, "max_parallel: 1", "max_parallel: 2", 1),
		"a step of a phase": "mode: standard\ncommands:\n  - shell: a\n    retry_config: {attempts: 2, backoff: fixed, initial_delay: 1h, max_delay: 2h}\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				tries := map[string]int{}
				var mu sync.Mutex
				c := config(t, fake(func(c call) answer {
					mu.Lock()
					defer mu.Unlock()
					tries[c.item]++
					if tries[c.item] == 1 {
						return answer{code: 1}
					}
					return answer{}
				}))
				r := steered(t, c, source, func(ask func(job.Request) job.Answer) {
					if name != "a step of a phase" {
						time.Sleep(time.Second)
						refusedWith(t, ask(job.Request{Do: job.RetryNow, Items: []job.Item{{ID: "item_7", Index: 7}}}), "none of these items is waiting")
						done(t, ask(job.Request{Do: job.RetryNow, Items: []job.Item{{ID: "item_0"}}}), "due now: 1 ")
					}
					time.Sleep(time.Second)
					done(t, ask(job.Request{Do: job.RetryNow}), "due now: 1 ")
				})
				if took := time.Since(began); r.State != jobs.Completed || r.Metrics.Failed > 0 || took > time.Minute {
					t.Errorf("got %s (%s) after %s, want completed at once", r.State, r.Reason, took)
				}
			})
		})
	}
}

// A log that ends after any record of a steered job: what was asked for holds, and every item is settled once.
func TestARequestHoldsWhereverTheLogIsCut(t *testing.T) {
	source := workflowOf(8, 2, "error_policy:\n  on_item_failure: retry\n  retry_config: {max_attempts: 2, initial_delay: 3s}\nreduce:\n  - shell: r\n")
	k := recorded{source: source, items: 8, reply: func(c call) answer {
		if c.item == "item_2" || c.item == "item_3" {
			return answer{takes: time.Second, code: 1}
		}
		return answer{takes: time.Second}
	}}
	c := config(t, fake(k.reply))
	c.CheckpointRecords = 1
	var whole Result
	synctest.Test(t, func(t *testing.T) {
		whole = steered(t, c, source, func(ask func(job.Request) job.Answer) {
			time.Sleep(1500 * time.Millisecond)
			done(t, ask(job.Request{Do: job.Pause}), "")
			time.Sleep(time.Second)
			done(t, ask(job.Request{Do: job.Skip, Items: []job.Item{{ID: "item_2", Index: 2}, {ID: "item_6", Index: 6}}}), "")
			done(t, ask(job.Request{Do: job.RetryNow}), "")
			done(t, ask(job.Request{Do: job.Scale, Slots: 5}), "")
			done(t, ask(job.Request{Do: job.Continue}), "")
			done(t, ask(job.Request{Do: job.Skip, Items: []job.Item{{ID: "item_4", Index: 4}}}), "skipped: item_4")
		})
	})
	if m := whole.Metrics; whole.State != jobs.Completed || m.Successful != 4 || m.Skipped != 3 || m.Failed != 1 {
		t.Fatalf("got %s, %+v, want 4 successful, 3 skipped, 1 failed", whole.State, m)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(readLog(t, whole.Job), "\n"), "\n")
	all := moments(t, whole.Job, parse(t, source).ErrorPolicy)
	first := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "PauseRequested") })
	for cut := first; cut < len(lines); cut++ {
		place := copyJob(t, c, whole.Job, strings.Join(lines[:cut], ""))
		if cut%2 == 0 {
			all[cut/2].put(t, place.job)
		}
		synctest.Test(t, func(t *testing.T) {
			r, err := Resume(t.Context(), withHome(c, place), place.job)
			if err != nil || r.State != jobs.Completed {
				t.Fatalf("cut after record %d: got %s (%s), %v", cut, r.State, r.Reason, err)
			}
			records := recordsOf(t, place.job)
			checkSettledOnce(t, records, 8)
			asked, _ := told[events.SkipRequested](records)
			for _, e := range asked {
				skipped := slices.ContainsFunc(records, func(r events.Record) bool {
					f, ok := r.Event.(events.AgentFailed)
					return ok && f.ItemID == e.ItemID && f.Action == errorpolicy.Skip
				})
				if !skipped {
					t.Errorf("cut after record %d: %s was to be skipped, and was not", cut, e.ItemID)
				}
			}
			if n := r.Metrics.Skipped; n != len(asked) {
				t.Errorf("cut after record %d: got %d skipped, want %d", cut, n, len(asked))
			}
		})
	}
}

// The run dies between the record of a cancel and the end: that is a cancelled job all the same.
func TestACancelOutlivesTheDeathOfTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(func(call) answer { return answer{takes: time.Second} }))
		r := steered(t, c, workflowOf(4, 1, ""), func(ask func(job.Request) job.Answer) {
			time.Sleep(1500 * time.Millisecond)
			done(t, ask(job.Request{Do: job.Cancel}), "cancelled")
		})
		log := readLog(t, r.Job)
		at := strings.Index(log, `"type":"CancelRequested"`)
		place := copyJob(t, c, r.Job, log[:at+strings.Index(log[at:], "\n")+1])
		if s, err := job.Summarize(place.job); err != nil || s.State != jobs.Cancelled || s.Reason != "cancelled by alice" {
			t.Errorf("got %s (%s), %v, want cancelled by alice", s.State, s.Reason, err)
		}
		var refused *job.RefusedError
		if _, err := Resume(t.Context(), withHome(c, place), place.job); !errors.As(err, &refused) {
			t.Errorf("got %v, want that a resume is refused", err)
		}
	})
}

// Whoever asks gets an answer at every moment of a job, also when it is about to end or was stopped.
func TestEveryRequestIsAnsweredWhileAJobEnds(t *testing.T) {
	for _, verb := range []job.Verb{job.Pause, job.Continue, job.Drain, job.Cancel, job.Scale, job.RetryNow, "no such"} {
		for at := range 12 {
			synctest.Test(t, func(t *testing.T) {
				stop, cancel := context.WithCancelCause(t.Context())
				c := config(t, fake(func(call) answer { return answer{takes: time.Second} }))
				c.Stop = stop
				r := steered(t, c, workflowOf(4, 2, "reduce:\n  - shell: r\n"), func(ask func(job.Request) job.Answer) {
					time.Sleep(time.Duration(at) * 300 * time.Millisecond)
					var both sync.WaitGroup
					for range 2 {
						both.Go(func() {
							if a := ask(job.Request{Do: verb, Slots: 3}); a.Text == "" {
								t.Errorf("%s after %d: got no words", verb, at)
							}
						})
					}
					both.Wait()
					time.Sleep(10 * time.Second)
					cancel(errEnough)
				})
				if r.State == "" {
					t.Errorf("%s after %d: got %+v", verb, at, r)
				}
			})
		}
	}
}

// A retry of dead letters may have a limit and a canary of its own.
func TestDeadLettersAreRetriedAtARateAndAfterACanary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &timeline{}
		mended := false
		c := config(t, fake(func(c call) answer {
			a := l.runner(0)(c)
			if !mended {
				a.code = 1
			}
			return a
		}))
		r := run(t, c, workflowOf(5, 5, ""))
		all := func(q *dlq.Queue) (ids []string, err error) {
			for e, err := range q.Each() {
				if err != nil {
					return nil, err
				}
				ids = append(ids, e.ItemID)
			}
			return ids, nil
		}
		c.Rate, c.Canary = limit.Rate{Count: 1, Per: 2 * time.Second}, 2
		for _, want := range []struct {
			mended bool
			at     []time.Duration
			dead   int
		}{{false, []time.Duration{0, 2 * time.Second}, 5}, {true, []time.Duration{0, 2 * time.Second, 4 * time.Second, 6 * time.Second, 8 * time.Second}, 0}} {
			time.Sleep(time.Hour)
			l.began, l.at, mended = time.Now(), nil, want.mended
			r, err := RetryDead(t.Context(), c, r.Job, all, false)
			if err != nil || r.State != jobs.Completed || r.Metrics.Failed != want.dead || !slices.Equal(l.at, want.at) {
				t.Errorf("mended %t: got %s with %d failed, starts at %v, %v, want completed with %d, starts at %v", want.mended, r.State, r.Metrics.Failed, l.at, err, want.dead, want.at)
			}
		}
		for _, rec := range recordsOf(t, r.Job) {
			if e, ok := rec.Event.(events.AgentStarted); ok && e.Attempt > 3 {
				t.Errorf("got attempt %d of %s, want 3 at most", e.Attempt, e.ItemID)
			}
		}
	})
}
