package job

import (
	"strconv"
	"testing"
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
)

// BenchmarkReplay measures what a record costs a job that is taken up: reading, decoding and folding it.
func BenchmarkReplay(b *testing.B) {
	const jobID = "mapreduce-20261120-161530-k3f9"
	dir := b.TempDir()
	now := time.Date(2026, 11, 20, 16, 15, 30, 0, time.UTC)
	log, err := events.Create(dir+"/log", jobID, now, events.Options{Durability: events.None})
	if err != nil {
		b.Fatal(err)
	}
	const items = 50_000
	for i := range items {
		id := "item_" + strconv.Itoa(i)
		log.Append(now, events.AgentStarted{
			AttemptID: events.AttemptID{ItemID: id, ItemIndex: i, AgentID: jobID + "/" + id + "/1", Attempt: 1},
			Worker:    i%8 + 1,
		})
		log.Append(now, events.AgentCompleted{
			AttemptID: events.AttemptID{ItemID: id, ItemIndex: i, AgentID: jobID + "/" + id + "/1", Attempt: 1},
			Worker:    i%8 + 1, DurationMS: 1234567,
		})
	}
	if err := log.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		s := NewFold(errorpolicy.Policy{})
		for r, err := range events.Read(dir + "/log") {
			if err != nil {
				b.Fatal(err)
			}
			s.Apply(r)
		}
		if s.Status.Settled() != items {
			b.Fatalf("got %d items finished, want %d", s.Status.Settled(), items)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(2*items), "ns/record")
}

// BenchmarkCheckpoint measures how long a checkpoint of a million items takes, of which one in a hundred is a dead letter.
func BenchmarkCheckpoint(b *testing.B) {
	s := NewFold(errorpolicy.Policy{})
	now := time.Date(2026, 11, 20, 16, 15, 30, 0, time.UTC)
	for i := range 1_000_000 {
		id := "item_" + strconv.Itoa(i)
		s.Apply(events.Record{
			Seq: int64(2*i + 1), Time: now,
			Event: events.AgentStarted{AttemptID: events.AttemptID{ItemID: id, ItemIndex: i, Attempt: 1}},
		})
		var end events.Event = events.AgentCompleted{AttemptID: events.AttemptID{ItemID: id, ItemIndex: i, Attempt: 1}}
		if i%100 == 0 {
			end = events.AgentFailed{
				AttemptID: events.AttemptID{ItemID: id, ItemIndex: i, Attempt: 1},
				Action:    errorpolicy.DLQ,
			}
		}
		s.Apply(events.Record{Seq: int64(2*i + 2), Time: now, Event: end})
	}
	b.ReportAllocs()
	for b.Loop() {
		data, err := Checkpoint{State: s}.encode()
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(data)), "bytes")
	}
}
