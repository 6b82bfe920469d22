package mapreduce

import (
	"context"
	"errors"
	"flag"
	"runtime/metrics"
	"sync/atomic"
	"testing"

	"prodigy/internal/dlq"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/process"
)

var scale = flag.Bool("scale", false, "run the jobs of many items")

// most is far more memory than a job of any size needs: what would grow with its items comes to more.
const most = 64 << 20

// peak is the most memory that was seen in use. What nobody uses any more does not count: how much of that there is depends on how soon
// it is collected.
type peak struct{ bytes atomic.Uint64 }

func (p *peak) look() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	for {
		seen, now := p.bytes.Load(), live[0].Value.Uint64()
		if now <= seen || p.bytes.CompareAndSwap(seen, now) {
			return
		}
	}
}

// TestMemoryDoesNotGrowWithTheItems runs 200,000 items, of which one in a hundred fails twice before it succeeds, and one in a hundred
// is given up, interrupted half-way by a stop.
func TestMemoryDoesNotGrowWithTheItems(t *testing.T) {
	if !*scale {
		t.Skip("make scale runs this, for half a minute")
	}
	const n = 200_000
	source := "name: scale\nmap:\n  input: {command: \"seq 0 199999\"}\n  max_parallel: 8\n  agent_template:\n    - shell: work ${item}\n" +
		"error_policy:\n  on_item_failure: retry\n  retry_config: {max_attempts: 3, backoff: fixed, initial_delay: 1ms}\n"
	var memory peak
	var calls atomic.Int64
	stop, halt := context.WithCancelCause(t.Context())
	c := config(t, func(_ context.Context, c process.Command) (process.Exit, error) {
		switch ran := calls.Add(1); {
		case ran == n/2:
			halt(errors.New("half-way"))
		case ran%5000 == 0:
			memory.look()
		}
		item, attempt := variable(c, "PRODIGY_ITEM"), variable(c, "PRODIGY_ATTEMPT")
		if len(item) > 1 && (item[len(item)-2:] == "00" || item[len(item)-2:] == "50" && attempt != "3") {
			return process.Exit{Code: 1}, nil
		}
		return process.Exit{}, nil
	})
	c.Durability, c.Stop = events.None, stop
	first := run(t, c, source)
	if first.State != jobs.Stopped {
		t.Fatalf("got %s (%s), want a pause half-way", first.State, first.Reason)
	}
	c.Stop = nil
	r, err := Resume(t.Context(), c, first.Job)
	if err != nil {
		t.Fatal(err)
	}
	memory.look()

	const failed = n/100 - 1 // not item 0
	if m := r.Metrics; r.State != jobs.Completed || m.TotalItems != n || m.Successful != n-failed || m.Failed != failed {
		t.Errorf("got %s with %d of %d items successful and %d failed, want completed with %d of %d and %d",
			r.State, m.Successful, m.TotalItems, m.Failed, n-failed, n, failed)
	}
	ended := 0
	for _, err := range events.ReadLines(r.Job.EventsDir(), events.Query{Type: "AgentCompleted"}) {
		if err != nil {
			t.Fatal(err)
		}
		ended++
	}
	q, err := dlq.Open(r.Job.DLQFile())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = q.Close() }()
	if ended != n-failed || q.Len() != failed {
		t.Errorf("got %d items completed in the log and %d dead letters, want %d and %d", ended, q.Len(), n-failed, failed)
	}
	if got := memory.bytes.Load(); got > most {
		t.Errorf("got %d MiB of memory in use, want no more than %d", got>>20, most>>20)
	}
	t.Logf("%d MiB at most", memory.bytes.Load()>>20)
}
