package mapreduce

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/process"
	"prodigy/internal/retry"
)

// hungry runs the commands of items, of which these are killed for lack of memory while another one runs. With always they are killed alone, too.
func hungry(always bool, items ...string) (run func(context.Context, process.Command) (process.Exit, error), order func() string) {
	var mu sync.Mutex
	running, ended := map[string]bool{}, []string{} // whether they ever ran beside another
	return func(ctx context.Context, c process.Command) (process.Exit, error) {
		id := variable(c, "PRODIGY_ITEM_ID")
		mu.Lock()
		running[id] = false
		for other := range running {
			running[other] = running[other] || len(running) > 1
		}
		mu.Unlock()
		exit, err := fake(func(call) answer { return answer{takes: time.Second} })(ctx, c)
		mu.Lock()
		defer mu.Unlock()
		crowded := running[id]
		delete(running, id)
		if err == nil && slices.Contains(items, id) && (crowded || always) {
			exit = process.Exit{Code: -1, Signal: "SIGKILL", Number: 9, OOM: true}
			id = "-" + id
		}
		ended = append(ended, strings.TrimPrefix(strings.Replace(id, "item_", "", 1), "+"))
		return exit, err
	}, func() string { mu.Lock(); defer mu.Unlock(); return strings.Join(ended, " ") }
}

func TestAnItemKilledForMemoryRunsAgainAlone(t *testing.T) {
	for name, c := range map[string]struct {
		always bool
		keys   string
		good   int
	}{
		"enough for one":        {false, "max_parallel: 4", 12},
		"not enough for one":    {true, "max_parallel: 4", 10},
		"enough, in the canary": {false, "max_parallel: 4\ncanary: {items: 4}", 12},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conf := config(t, nil)
				var order func() string
				conf.Runner, order = hungry(c.always, "item_1", "item_2")
				r := run(t, conf, rolled(12, c.keys, "error_policy: {on_oom: alone}\n"))
				if r.State != jobs.Completed || r.Metrics.Successful != c.good {
					t.Fatalf("got %s (%s) %+v in the order %s", r.State, r.Reason, r.Metrics, order())
				}
				failed, _ := told[events.AgentFailed](recordsOf(t, r.Job))
				if len(failed) == 0 || failed[0].ErrorType != retry.TypeOOM || failed[0].Retry == nil || !failed[0].Retry.Alone {
					t.Errorf("got %+v", failed)
				}
				if n := len(failed); n != 2+12-c.good {
					t.Errorf("got %d failures in the order %s", n, order())
				}
				alone := 0
				starts, _ := told[events.AgentStarted](recordsOf(t, r.Job))
				for _, e := range starts {
					if e.Alone {
						alone++
					}
				}
				if alone != 2 {
					t.Errorf("got %d starts alone, want 2", alone)
				}
			})
		})
	}
}

// A stop before the others are done does not let it run beside them afterwards.
func TestAnItemKilledForMemoryStaysAloneOverAResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conf := config(t, nil)
		var order func() string
		conf.Runner, order = hungry(false, "item_0", "item_3")
		source := rolled(9, "max_parallel: 3", "error_policy: {on_oom: alone}\n")
		r := run(t, stopAfter(t, conf, 1500*time.Millisecond), source)
		r, err := Resume(t.Context(), conf, r.Job)
		if err != nil || r.State != jobs.Completed || r.Metrics.Successful != 9 {
			t.Fatalf("got %s %+v, %v in the order %s", r.State, r.Metrics, err, order())
		}
		if last := fmt.Sprint(strings.Fields(order())[len(strings.Fields(order()))-2:]); last != "[0 3]" {
			t.Errorf("got the order %s, want 0 and 3 at the end", order())
		}
	})
}
