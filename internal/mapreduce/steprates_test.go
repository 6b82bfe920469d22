package mapreduce

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/jobs"
)

// called returns a map workflow over items with hosts, whose second step has this rate.
func called(slots int, rate, step string, list ...string) string {
	return strings.Replace(rated(slots, "1/s", "    - shell: call\n      id: call\n      rate: "+rate+"\n"+step, list...), "  rate: 1/s\n", "", 1)
}

// callsOf returns when the second step began, by its commands.
func callsOf(t *testing.T, answerOf func(call) answer) (reply func(call) answer, at func() []time.Duration) {
	t.Helper()
	var mu sync.Mutex
	var calls []time.Duration
	began := time.Now()
	return func(k call) answer {
			if k.script != "call" {
				return answer{takes: 100 * time.Millisecond}
			}
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, time.Since(began))
			return answerOf(k)
		}, func() []time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return slices.Sorted(slices.Values(calls))
		}
}

func TestAStepStartsAtItsRateAndItsAgentsWaitWithoutASlot(t *testing.T) {
	for name, slots := range map[string]int{"several slots": 3, "one slot": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reply, at := callsOf(t, func(call) answer { return answer{takes: time.Second} })
				r := run(t, config(t, fake(reply)), called(slots, "{limit: 1/5s, burst: 1}", "", slices.Repeat([]string{"a"}, 8)...))
				if r.Metrics.Successful != 8 {
					t.Fatalf("got %+v", r.Metrics)
				}
				for i, d := range at() {
					if got := d.Round(time.Second); got != time.Duration(i)*5*time.Second {
						t.Errorf("call %d at %s, want at %s", i, got, time.Duration(i)*5*time.Second)
					}
				}
				all := recordsOf(t, r.Job)
				_, starts := told[events.AgentStarted](all)
				turns, _ := told[events.StepTurn](all)
				if last := starts[len(starts)-1]; len(turns) != 8 || slots > 1 && last > time.Second || slots == 1 && last < 30*time.Second {
					t.Errorf("%d turns; the last agent starts after %s", len(turns), last)
				}
			})
		})
	}
}

// Its retries take turns too, each key has its own, and another step has none.
func TestTheRateOfAStepIsOfItsKeyAndOfItsRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reply, at := callsOf(t, func(k call) answer {
			return answer{code: map[bool]int{true: 1}[k.item == "item_0"]}
		})
		source := called(4, `{limit: 1/10s, burst: 1, per: "${item.host}"}`, "      retry_config: {attempts: 3, backoff: fixed, initial_delay: 1s}\n", "a", "b", "a", "b")
		r := run(t, config(t, fake(reply)), source)
		var got []int
		for _, d := range at() {
			got = append(got, int(d.Round(time.Second)/time.Second))
		}
		if want := []int{0, 0, 10, 10, 20, 30}; r.Metrics.Successful != 3 || !slices.Equal(got, want) {
			t.Errorf("got %+v with calls at %v, want at %v", r.Metrics, got, want)
		}
	})
}

// TestTheRateOfAStepHoldsOverResumes stops a job again and again, and looks at all its runs together.
func TestTheRateOfAStepHoldsOverResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reply, at := callsOf(t, func(call) answer { return answer{takes: 200 * time.Millisecond} })
		c := config(t, fake(reply))
		r := run(t, stopAfter(t, c, 2500*time.Millisecond), called(4, "{limit: 1/s, burst: 2}", "", slices.Repeat([]string{"a"}, 14)...))
		for n := 0; r.State == jobs.Stopped; n++ {
			var err error
			if r, err = Resume(t.Context(), stopAfter(t, c, 2500*time.Millisecond), r.Job); err != nil || n > 50 {
				t.Fatal(err, n)
			}
		}
		all := at()
		if r.Metrics.Successful != 14 || len(all) < 14 {
			t.Fatalf("got %+v after %d calls", r.Metrics, len(all))
		}
		for i := range all {
			for k := i; k < len(all); k++ {
				if n, most := k-i+1, 2+int((all[k]-all[i]+time.Millisecond)/time.Second); n > most {
					t.Fatalf("%d calls in %s, want at most %d", n, all[k]-all[i], most)
				}
			}
		}
	})
}

// An agent whose time is up, or that is stopped, while it waits for a turn takes none.
func TestTheTimeOfAnAgentDoesNotRunWhileItWaitsForATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reply, _ := callsOf(t, func(call) answer { return answer{takes: time.Second} })
		source := strings.Replace(called(4, "{limit: 1/10s, burst: 1}", "", "a", "a", "a", "a"), "  input:\n", "  agent_timeout_secs: 3\n  input:\n", 1)
		if r := run(t, config(t, fake(reply)), source); r.Metrics.Successful != 4 {
			t.Errorf("got %+v, want that no agent runs out of time", r.Metrics)
		}
	})
}
