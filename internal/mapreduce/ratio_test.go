package mapreduce

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/jobs"
)

// storm returns a map workflow over n items with a retry ratio, which are tried again as this policy says.
func storm(n, slots int, ratio, policy string) string {
	return workflowOf(n, slots, "error_policy:\n  on_item_failure: retry\n  retry_ratio: "+ratio+"\n  retry_config: {"+policy+"}\n")
}

// retriesOf returns when first attempts and retries started.
func retriesOf(all []events.Record) (first, retries []time.Duration) {
	for _, r := range all {
		since := r.Time.Sub(all[0].Time)
		switch e := r.Event.(type) {
		case events.AgentStarted:
			if e.Attempt > 1 {
				retries = append(retries, since)
				continue
			}
			first = append(first, since)
		case events.StepRetried:
			retries = append(retries, since)
		}
	}
	return first, retries
}

// TestAnOutageIsNotMadeWorseByRetries: of a service that is away for two minutes no item is lost, and there are hardly more calls than first attempts,
// whether the retries are of items or of steps.
func TestAnOutageIsNotMadeWorseByRetries(t *testing.T) {
	ofSteps := strings.Replace(workflowOf(400, 8, "error_policy: {retry_ratio: {ratio: 0.2, min: 5}}\n"), "- shell: work",
		"- shell: work\n      retry_config: {attempts: 30, backoff: fixed, initial_delay: 5s}\n  park_after: 0", 1)
	byKey := strings.Replace(storm(400, 8, "{ratio: 0.2, min: 5}", "attempts: 30, backoff: fixed, initial_delay: 5s"), "  max_parallel",
		"  rate: {limit: 100/s, per: \"${item}\"}\n  max_parallel", 1)
	for name, source := range map[string]string{
		"items":        storm(400, 8, "{ratio: 0.2, min: 5}", "attempts: 30, backoff: fixed, initial_delay: 5s"),
		"steps":        ofSteps,
		"items by key": byKey,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				c := config(t, fake(func(call) answer {
					away := time.Since(began) < 2*time.Minute
					return answer{takes: time.Second, code: map[bool]int{true: 1}[away]}
				}))
				r := run(t, c, source)
				if r.Metrics.Successful != 400 {
					t.Fatalf("got %+v, want that all succeed", r.Metrics)
				}
				all := recordsOf(t, r.Job)
				first, retries := retriesOf(all)
				within, again := 0, 0
				for _, at := range first {
					if at < time.Minute {
						within++
					}
				}
				for _, at := range retries {
					if at < time.Minute {
						again++
					}
				}
				if within < 350 || again > within/5+1 {
					t.Errorf("in the first minute %d first attempts and %d retries, want about 400 and no more than a fifth", within, again)
				}
				for i := range retries { // when there are no first attempts any more, the floor is left
					n := 0
					for k := i; k < len(retries) && retries[k]-retries[i] < 59*time.Second; k++ {
						n++
					}
					if retries[i] > 2*time.Minute && n > 5 {
						t.Fatalf("%d retries in the minute from %s, want at most 5", n, retries[i])
					}
				}
				held, _ := told[events.RetriesHeld](all)
				allowed, _ := told[events.RetriesAllowed](all)
				if len(held) == 0 || len(held) > 5 || len(allowed) != len(held) {
					t.Errorf("got %d times held and %d times allowed", len(held), len(allowed))
				}
			})
		})
	}
}

// TestFewItemsAreRetriedAsEver: below the floor nothing waits.
func TestFewItemsAreRetriedAsEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(func(k call) answer { return answer{code: map[bool]int{true: 1}[k.attempt == "1"]} }))
		began := time.Now()
		r := run(t, c, storm(10, 10, "0.2", "attempts: 2, backoff: fixed, initial_delay: 1s"))
		if took := time.Since(began); r.Metrics.Successful != 10 || took > 1500*time.Millisecond {
			t.Errorf("got %+v after %s, want 10 after 1s", r.Metrics, took)
		}
	})
}

// TestARatioHoldsOverResumes: what has started before a stop is known after it.
func TestARatioHoldsOverResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, fake(func(k call) answer {
			return answer{takes: 100 * time.Millisecond, code: map[bool]int{true: 1}[k.attempt < "3"]}
		}))
		source := storm(20, 4, "{ratio: 0.1, window: 30s, min: 3}", "attempts: 3, backoff: fixed, initial_delay: 1s")
		r := run(t, stopAfter(t, c, 4*time.Second), source)
		for n := 0; r.State == jobs.Stopped; n++ {
			var err error
			if r, err = Resume(t.Context(), stopAfter(t, c, 7*time.Second), r.Job); err != nil || n > 200 {
				t.Fatal(err, n)
			}
		}
		if r.Metrics.Successful != 20 {
			t.Fatalf("got %+v", r.Metrics)
		}
		_, retries := retriesOf(recordsOf(t, r.Job))
		for i := range retries {
			n := 0
			for k := i; k < len(retries) && retries[k]-retries[i] < 29*time.Second; k++ {
				n++
			}
			if n > 3 {
				t.Fatalf("%d retries in 29s from %s on, want at most 3", n, retries[i])
			}
		}
	})
}
