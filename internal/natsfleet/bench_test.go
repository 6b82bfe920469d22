package natsfleet

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/nats-io/nats.go"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/fleet"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/workflow"
)

// BenchmarkItems runs trivial items in the local pool, and on a fleet of two workers, all in this process.
func BenchmarkItems(b *testing.B) {
	items := func(n int) (*workflow.Workflow, []byte) {
		text := fmt.Appendf(nil, "mode: mapreduce\nmap:\n  max_parallel: 16\n  input: {command: 'seq 1 %d'}\n  agent_template: [{shell: 'true'}]\n", n)
		w, err := workflow.Parse("w.yml", text, workflow.ParseOptions{})
		if err != nil {
			b.Fatal(err)
		}
		return w, text
	}
	b.Run("pool", func(b *testing.B) {
		w, text := items(b.N)
		dir := b.TempDir()
		c := mapreduce.Config{Home: jobs.Home{Root: dir}, Dir: dir, Version: "test", MaxRetries: 3, EndConfig: mapreduce.EndConfig{Grace: time.Second}, LogConfig: job.LogConfig{Durability: events.Batch}}
		if r, err := mapreduce.Run(b.Context(), c, w, text); err != nil || r.Metrics.Successful != b.N {
			b.Fatalf("%+v, %v", r, err)
		}
	})
	b.Run("fleet", func(b *testing.B) {
		f := newFieldOf(b)
		f.worker("a", 8, nil)
		f.worker("b", 8, nil)
		w, text := items(b.N)
		c, coordinator := f.config(nil)
		b.ResetTimer()
		r, err := mapreduce.Run(b.Context(), c, w, text)
		b.StopTimer()
		if err != nil || r.Metrics.Successful != b.N {
			b.Fatalf("%+v, %v", r, err)
		}
		if err := coordinator.Close(); err != nil {
			b.Error(err)
		}
	})
}

// BenchmarkOutstanding tells what an attempt that is out costs the coordinator in memory. There is no worker.
func BenchmarkOutstanding(b *testing.B) {
	const out = 20000
	for range b.N {
		f := newFieldOf(b)
		text := fmt.Appendf(nil, "mode: mapreduce\nmap:\n  max_parallel: %d\n  input: {command: 'seq 1 %d'}\n  agent_template: [{shell: 'true'}]\n", out, out)
		w, err := workflow.Parse("w.yml", text, workflow.ParseOptions{})
		if err != nil {
			b.Fatal(err)
		}
		c, of := f.config(nil)
		ctx, cancel := context.WithCancel(b.Context())
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		go func() {
			defer cancel()
			k := of.(*coordinator)
			for n := 0; n < out && b.Context().Err() == nil; time.Sleep(100 * time.Millisecond) {
				k.turn(func(s *jobState) { n = s.ledger.Len() })
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
		}()
		if _, err := mapreduce.Run(ctx, c, w, text); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/out, "B/attempt")
		if err := of.Close(); err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkDispatch gives attempts to 1,000 workers that run nothing, and settles them.
func BenchmarkDispatch(b *testing.B) {
	const workers, slots = 1000, 4
	f := newFieldOf(b)
	_, of := f.config(func(o *fleet.JobOptions) { o.Lease = time.Minute })
	c := of.(*coordinator)
	c.Executor(agent.Config{Seed: 1}, deafHost{})
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	done := make(chan *agent.Attempt, workers*slots)
	submit := func(i int) {
		a := attemptAt(f, i+1, "true")
		c.Submit(ctx, a, func(a *agent.Attempt, _ agent.Outcome, err error) {
			if err != nil {
				b.Error(err)
			}
			done <- a
		})
	}
	b.ResetTimer()
	submit(0)
	nc, err := nats.Connect(f.broker.ClientURL())
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	for i := range workers {
		simulate(b, nc, c, fmt.Sprintf("W%d-1", i), slots)
	}
	out := 1
	for sent, ended := 1, 0; ended < b.N; {
		for sent < b.N && out < workers*slots {
			submit(sent)
			sent++
			out++
		}
		a := <-done
		ended++
		out--
		c.Persisted([]events.Record{{Event: events.AgentCompleted{AttemptID: events.AttemptID{AgentID: a.ID}}}})
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "attempts/s")
	if err := c.Close(); err != nil {
		b.Error(err)
	}
}

// simulate is a worker that says of each attempt at once that it has succeeded.
func simulate(b *testing.B, nc *nats.Conn, c *coordinator, name string, slots int64) {
	credit := slots
	say := func(reports []fleet.Report, full bool) {
		u := fleet.WorkerMessage{V: fleet.Protocol, Owner: c.owner, Reports: reports, WorkerStatus: fleet.WorkerStatus{Instance: name, Node: name, Round: 1, Credit: credit, Full: full}}
		if err := nc.Publish(upSubject(name, c.key), encoded(u)); err != nil {
			b.Error(err)
		}
	}
	if _, err := nc.Subscribe(downSubject(name), func(m *nats.Msg) {
		var d fleet.CoordinatorMessage
		if err := jsonv1.Unmarshal(m.Data, &d); err != nil {
			b.Error(err)
		}
		if len(d.Tasks) == 0 {
			return
		}
		var reports []fleet.Report
		for _, t := range d.Tasks {
			credit++
			reports = append(reports, fleet.Report{
				V: fleet.Protocol, Token: t.Token, Index: 1, Kind: fleet.Ended, Holder: fleet.Holder{Instance: name, Node: name, Slot: 1}, Outcome: &agent.Outcome{},
			})
		}
		say(reports, false)
	}); err != nil {
		b.Fatal(err)
	}
	say(nil, true)
}
