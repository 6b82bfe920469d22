package mapreduce

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"prodigy/internal/events"
	"prodigy/internal/jobs"
)

// rolled returns a map workflow over n items with these keys of the map, and this error policy.
func rolled(n int, keys, policy string) string {
	return strings.Replace(workflowOf(n, 1, policy), "  max_parallel: 1\n", "  "+strings.ReplaceAll(keys, "\n", "\n  ")+"\n", 1)
}

// failingFrom fails what is begun from an item on.
func failingFrom(first int) func(call) answer {
	return func(k call) answer {
		var index int
		_, _ = fmt.Sscanf(k.item, "item_%d", &index)
		return answer{takes: time.Second, code: map[bool]int{true: 1}[index >= first]}
	}
}

// stagesTold returns the stages that a log has, with when they began.
func stagesTold(all []events.Record) (told []string) {
	for _, r := range all {
		switch e := r.Event.(type) {
		case events.RolloutStage:
			told = append(told, fmt.Sprintf("%s %s %d", r.Time.Sub(all[0].Time).Round(time.Second), e.Name, e.Slots))
		case events.RolloutHeld:
			told = append(told, fmt.Sprintf("%s held %d of %d", r.Time.Sub(all[0].Time).Round(time.Second), e.Failed, e.Successful+e.Failed))
		}
	}
	return told
}

func TestARolloutClimbsWhileItsItemsSucceed(t *testing.T) {
	for name, c := range map[string]struct {
		keys string
		want []string
	}{
		"a canary": {"max_parallel: 4\ncanary: {items: 4}", []string{"0s canary 0", "1s  0"}},
		"a ramp":   {"ramp: {steps: [1, 2, 8], items: 4}", []string{"0s ramp 1", "4s ramp 2", "6s  0"}},
		"both":     {"canary: {items: 2}\nramp: [1, 2, 8]", []string{"0s canary 1", "2s ramp 2", "3s  0"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := run(t, config(t, fake(func(call) answer { return answer{takes: time.Second} })), rolled(24, c.keys, ""))
				got := stagesTold(recordsOf(t, r.Job))
				if r.State != jobs.Completed || r.Metrics.Successful != 24 || strings.Join(got, ", ") != strings.Join(c.want, ", ") {
					t.Errorf("got %s with stages %q, want %q", r.State, got, c.want)
				}
			})
		})
	}
}

func TestABadCanaryPausesTheJobUntilSomebodyAccepts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(failingFrom(3)))
		source := rolled(20, "max_parallel: 4\ncanary: {items: 5, success_rate: 0.8}", "")
		r := run(t, c, source)
		starts, _ := told[events.AgentStarted](recordsOf(t, r.Job))
		if r.State != jobs.Stopped || !r.Unproven || len(starts) != 5 || !strings.Contains(r.Reason, "canary: 2 of 5 items did not succeed, success_rate 0.8 allows 1 of 5") {
			t.Fatalf("got %s (%s) after %d starts, want stopped after 5", r.State, r.Reason, len(starts))
		}
		place := r.Job
		if _, err := Resume(t.Context(), c, place); err == nil || !strings.Contains(err.Error(), "--accept; to try again") {
			t.Fatalf("a resume: got %v, want that it is refused with what to do", err)
		}
		c.Accept = true
		r, err := Resume(t.Context(), stopAfter(t, c, time.Second), place)
		if err != nil || r.State != jobs.Stopped || r.Unproven {
			t.Fatalf("accepted: got %s (%s), %v, want that it runs until it is stopped", r.State, r.Reason, err)
		}
		c.Accept = false
		r, err = Resume(t.Context(), c, place)
		if err != nil || r.State != jobs.Completed || r.Metrics.Failed != 17 {
			t.Errorf("a later resume: got %s (%s) %+v, %v, want that it knows of the acceptance", r.State, r.Reason, r.Metrics, err)
		}
		c.Accept = true
		if _, err := Resume(t.Context(), c, place); err == nil {
			t.Error("there is nothing to accept, and it was accepted")
		}
	})
}

func TestARampThatGoesBadIsHeldAndWhatRunsIsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(failingFrom(8)))
		r := run(t, c, rolled(60, "ramp: {steps: [2, 4, 8], items: 6, success_rate: 0.9}", ""))
		got := stagesTold(recordsOf(t, r.Job))
		if want := "0s ramp 2, 3s ramp 4, 4s held 1 of "; r.State != jobs.Stopped || !strings.HasPrefix(strings.Join(got, ", "), want) {
			t.Errorf("got %s with %q, want %q", r.State, got, want)
		}
		if n := r.Metrics.Successful + r.Metrics.Failed; n < 9 || n > 14 {
			t.Errorf("got %d items with an outcome", n)
		}
	})
}

// A mended workflow has to prove itself anew, with the next items.
func TestAMendedWorkflowBeginsTheStageAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mended atomic.Bool
		c := config(t, fake(func(call) answer { return answer{takes: time.Second, code: map[bool]int{true: 1}[!mended.Load()]} }))
		source := rolled(12, "max_parallel: 4\ncanary: {items: 4}", "")
		r := run(t, c, source)
		if !r.Unproven || r.Metrics.Failed < 1 || r.Metrics.Failed > 4 {
			t.Fatalf("got %s, %+v", r.State, r.Metrics)
		}
		failed := r.Metrics.Failed
		mended.Store(true)
		c.Replacement = &Replacement{Workflow: parse(t, source), Source: []byte(source)}
		r, err := Resume(t.Context(), c, r.Job)
		if err != nil || r.State != jobs.Completed || r.Metrics.Successful != 12-failed {
			t.Fatalf("got %s (%s) %+v, %v", r.State, r.Reason, r.Metrics, err)
		}
		if got, want := strings.Join(stagesTold(recordsOf(t, r.Job)), ", "), "canary 0"; strings.Count(got, want) != 2 {
			t.Errorf("got stages %q, want two canaries", got)
		}
	})
}

// TestNoItemOverTheCanaryBeginsBeforeItIsOver, whatever fails, is tried again, is skipped, and however the items are held back; and the job comes to the end
// that the outcomes mean.
func TestNoItemOverTheCanaryBeginsBeforeItIsOver(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n, items := rapid.IntRange(1, 14).Draw(rt, "n"), rapid.IntRange(1, 6).Draw(rt, "items")
		slots := rapid.IntRange(1, 5).Draw(rt, "slots")
		rate := rapid.SampledFrom([]float64{0.3, 0.5, 0.95, 1}).Draw(rt, "rate")
		bad := map[string]string{} // item → how often it fails
		for i := range n {
			bad[fmt.Sprintf("item_%d", i)] = rapid.SampledFrom([]string{"0", "0", "1", "9"}).Draw(rt, "bad")
		}
		keys := fmt.Sprintf("max_parallel: %d\ncanary: {items: %d, success_rate: %v}", slots, min(items, n), rate)
		if rapid.Bool().Draw(rt, "by key") {
			keys += "\nrate: {limit: 1/s, burst: 1, per: \"${item}\"}"
		}
		policy := "error_policy:\n  on_item_failure: retry\n  retry_config: {max_attempts: 3, backoff: fixed, initial_delay: 2s}\n"
		synctest.Test(t, func(t *testing.T) {
			r := run(t, config(t, fake(func(k call) answer {
				return answer{takes: time.Second, code: map[bool]int{true: 1}[k.attempt <= bad[k.item]]}
			})), rolled(n, keys, policy))
			over, ends, began := false, 0, map[string]bool{}
			for _, rec := range recordsOf(t, r.Job) {
				switch e := rec.Event.(type) {
				case events.RolloutStage:
					over = over || e.Stage > 0
				case events.RolloutHeld:
					ends++
				case events.AgentStarted:
					if began[e.ItemID] = true; len(began) > min(items, n) && !over {
						rt.Fatalf("%s begins as number %d before the canary of %d is over", e.ItemID, len(began), items)
					}
				}
			}
			if r.Unproven != (ends == 1) || !r.Unproven && (r.State != jobs.Completed || r.Metrics.Successful+r.Metrics.Failed != n) {
				rt.Fatalf("got %s (%s) with %+v, held %d times", r.State, r.Reason, r.Metrics, ends)
			}
			if good := r.Metrics.Successful; r.Unproven && float64(good) >= rate*float64(min(items, n)) {
				rt.Fatalf("held though %d of %d succeeded", good, min(items, n))
			}
		})
	})
}
