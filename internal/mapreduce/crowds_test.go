package mapreduce

import (
	"testing"
	"testing/synctest"
	"time"

	"prodigy/internal/events"
)

// Of 300 items that time out in the same moment the first 16 come back when the policy says, the others over as long again, each by as much in each run.
// A few that fail at once come back when the policy says.
func TestItemsThatFailAtOnceComeBackSpread(t *testing.T) {
	const delay = 30 * time.Second
	retries := func(n int) (at []time.Duration, spread map[string]events.Millis) {
		synctest.Test(t, func(t *testing.T) {
			c := config(t, fake(func(k call) answer {
				if k.attempt == "1" {
					return answer{takes: time.Second, code: 1}
				}
				return answer{takes: time.Millisecond}
			}))
			r := run(t, c, workflowOf(n, n, "error_policy:\n  on_item_failure: retry\n  retry_config: {max_attempts: 2, backoff: fixed, initial_delay: 30s}\n"))
			if r.Metrics.Successful != n {
				t.Fatalf("got %+v, want that all succeed", r.Metrics)
			}
			all := recordsOf(t, r.Job)
			_, at = retriesOf(all)
			spread = map[string]events.Millis{}
			failed, _ := told[events.AgentFailed](all)
			for _, e := range failed {
				spread[e.ItemID] = e.Retry.SpreadMS
			}
		})
		return at, spread
	}
	many, spread := retries(300)
	_, again := retries(300)
	for id, by := range spread { // which 16 come first is by chance
		if by > 0 && again[id] > 0 && by != again[id] {
			t.Errorf("the retry of %s is delayed by %v, and by %v in another run of the same job", id, by, again[id])
		}
	}
	inSecond := map[time.Duration]int{}
	for _, at := range many {
		if at < delay+time.Second || at > 2*delay+2*time.Second {
			t.Errorf("a retry starts after %s, want from %s to as long again", at, delay)
		}
		inSecond[at.Truncate(time.Second)]++
	}
	if most := inSecond[delay+time.Second]; most > 40 {
		t.Errorf("%d retries start in one second", most)
	}
	few, _ := retries(16)
	for _, at := range few {
		if at.Truncate(time.Second) != delay+time.Second {
			t.Errorf("one of 16 retries starts after %s, want %s", at, delay)
		}
	}
}
