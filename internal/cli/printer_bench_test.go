package cli

import (
	"fmt"
	"io"
	"testing"
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/workflow"
)

// BenchmarkDrawing is one second in which 5,000 items come to an end in 64 slots, one of ten for good: their records, their steps and
// the ten pictures that are drawn. A core has 1e9 ns of such a second.
func BenchmarkDrawing(b *testing.B) {
	const a, slots = 5000, 64
	con := &console{out: io.Discard, err: io.Discard, live: true, size: func() (w, h int) { return 120, 40 }}
	p := newPrinter(con, jobOptions{}, &workflow.Workflow{})
	ids := make([]string, a)
	for i := range ids {
		ids[i] = fmt.Sprint("item_", i)
	}
	now := time.Now()
	record := func(e events.Event) {
		r := events.Record{Time: now, JobID: "j", Event: e}
		p.job.Apply(r)
		p.print(r)
	}
	record(events.JobStarted{Mode: "mapreduce", MaxParallel: slots})
	record(events.PhaseStarted{Phase: "map"})
	record(events.ItemsSelected{TotalItems: a * 1000})
	for i := range slots {
		record(events.AgentStarted{AttemptID: events.AttemptID{ItemID: ids[i], ItemIndex: i, Attempt: 1}, Worker: i})
	}
	b.ReportAllocs()
	for b.Loop() {
		for i, id := range ids {
			now = now.Add(time.Second / a)
			if i%10 == 0 {
				record(events.AgentFailed{
					AttemptID: events.AttemptID{ItemID: id, ItemIndex: i, AgentID: "x"},
					ErrorType: "network", ErrorSignature: "exit code <n>", Error: "exit code 7",
					Action: errorpolicy.DLQ,
				})
			} else {
				record(events.AgentCompleted{
					AttemptID:  events.AttemptID{ItemID: id, ItemIndex: i, Attempt: 1},
					DurationMS: events.Millis(12 * time.Millisecond),
				})
			}
			next := (i + slots) % a
			record(events.AgentStarted{
				AttemptID: events.AttemptID{ItemID: ids[next], ItemIndex: next, Attempt: 1},
				Worker:    i % slots,
			})
			p.job.Step(events.AgentProgress{ItemID: ids[next], Step: "shell_0", Steps: 1})
			if i%(a/10) == 0 {
				p.progress(now)
			}
		}
	}
}
