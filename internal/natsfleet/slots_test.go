package natsfleet

import (
	"slices"
	"strings"
	"testing"

	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
)

// A job without max_parallel uses the slots of a worker that joins it later, and no more than what is left when one is drained.
func TestAJobGrowsWithTheWorkers(t *testing.T) {
	f := newField(t)
	f.worker("a", 2, nil)
	said := new(log)
	f.doing.Go(func() {
		f.waitFor("1 worker available: 2 slots", said.String)
		b := f.worker("b", 3, nil)
		f.waitFor("2 workers available: 5 slots instead of 2", said.String)
		b.drain()
	})
	var slots []int
	out, most := 0, 0
	r := f.run(strings.Replace(source(60, 1, `touch runs-${item}; sleep 0.1`, ""), "  max_parallel: 1\n", "", 1), func(c *mapreduce.Config) {
		settle := c.Observe
		c.Observe = func(records []events.Record) {
			settle(records)
			for _, rec := range records {
				switch e := rec.Event.(type) {
				case events.ScaleRequested:
					slots = append(slots, e.MaxParallel)
					said.add(e.Words())
				case events.AgentStarted:
					out++
					most = max(most, out)
				case events.AgentCompleted, events.AgentInterrupted:
					out--
				}
			}
		}
	})
	if r.State != jobs.Completed || r.Metrics.Successful != 60 {
		t.Fatalf("got %s (%s) with %+v, want 60 successful", r.State, r.Reason, r.Metrics)
	}
	if want := []int{2, 5, 2}; !slices.Equal(slots, want) || most != 5 {
		t.Errorf("got the slots %v with %d attempts out at most, want %v with 5", slots, most, want)
	}
}
