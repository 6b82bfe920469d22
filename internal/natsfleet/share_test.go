package natsfleet

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"prodigy/internal/agent"
	"prodigy/internal/fleet"
)

// testCoordinator is the coordinator of a job in the test below.
type testCoordinator struct {
	key        string
	dispatcher *fleet.Dispatcher
	next       int64
	most       int                     // attempts out at once
	each       time.Duration           // that an attempt takes
	ends       map[int64]time.Duration // those that run
	used       time.Duration           // slot time, since all have begun
	out        map[int64]bool
}

// The slots of a worker are shared by the jobs that want some. A job that has begun earlier, may have more attempts out, or has longer ones, gets no more of
// them; what one does not want the others get.
func TestJobsShareTheSlotsOfAWorker(t *testing.T) {
	for name, c := range map[string]struct {
		slots  int
		first  testCoordinator   // has run for a minute
		others []testCoordinator // that begin then
		want   []float64         // slots that they have on average
	}{
		"two that are alike":               {4, testCoordinator{most: 8, each: time.Second}, []testCoordinator{{most: 8, each: time.Second}}, []float64{2, 2}},
		"the first may have many more out": {4, testCoordinator{most: 64, each: time.Second}, []testCoordinator{{most: 4, each: time.Second}}, []float64{2, 2}},
		"the first has long attempts":      {4, testCoordinator{most: 64, each: 20 * time.Second}, []testCoordinator{{most: 64, each: time.Second}}, []float64{2, 2}},
		"the first has short attempts":     {4, testCoordinator{most: 64, each: time.Second}, []testCoordinator{{most: 64, each: 20 * time.Second}}, []float64{2, 2}},
		"one slot":                         {1, testCoordinator{most: 4, each: time.Second}, []testCoordinator{{most: 4, each: time.Second}}, []float64{0.5, 0.5}},
		"three":                            {6, testCoordinator{most: 64, each: 20 * time.Second}, []testCoordinator{{most: 64, each: time.Second}, {most: 64, each: 5 * time.Second}}, []float64{2, 2, 2}},
		"one that wants only one":          {4, testCoordinator{most: 64, each: 5 * time.Second}, []testCoordinator{{most: 1, each: 5 * time.Second}}, []float64{3, 1}},
		"one that wants none":              {4, testCoordinator{most: 64, each: 5 * time.Second}, []testCoordinator{{most: 0}}, []float64{4, 0}},
		"the first wants only one":         {3, testCoordinator{most: 1, each: 5 * time.Second}, []testCoordinator{{most: 64, each: 5 * time.Second}}, []float64{1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const before, after = time.Minute, 4 * time.Minute
				began := runJobs(t, c.slots, before, after, append([]testCoordinator{c.first}, c.others...))
				for i, b := range began {
					// What a job leaves unused is offered to it for a moment now and then.
					if got := float64(b.used) / float64(after); got > c.want[i]*1.1+0.05 || got < c.want[i]*0.85-0.05 {
						t.Errorf("job %d has %.2f slots on average, want %.2f", i, got, c.want[i])
					}
				}
			})
		})
	}
}

// runJobs has a worker run attempts of jobs, of which all but the first begin later, and returns the jobs then.
func runJobs(t *testing.T, slots int, before, after time.Duration, jobs []testCoordinator) []testCoordinator {
	var started []*heldAttempt
	w := newWorker(fleet.WorkerOptions{Version: "v"})
	w.brokerConn, w.o.Slots, w.life, w.state.rounds = &brokerConn{}, slots, t.Context(), 1
	for slot := range slots {
		w.state.free = append(w.state.free, slot+1)
	}
	for i := range jobs {
		b := &jobs[i]
		b.key, b.ends, b.out = fmt.Sprint("job", i), map[int64]time.Duration{}, map[int64]bool{}
		b.dispatcher = fleet.NewDispatcher(time.Minute, 5*time.Second, time.Now())
	}
	const tick = 50 * time.Millisecond
	for now := time.Duration(0); now < before+after; now += tick {
		w.state.proof = time.Now()
		if now == 0 {
			w.applyJob(jobs[0].key, fleet.Job{V: fleet.Protocol, Version: "v", Lease: time.Minute, Owner: "o", Files: "sent"}, nil)
		}
		if now == before {
			for _, b := range jobs[1:] {
				w.applyJob(b.key, fleet.Job{V: fleet.Protocol, Version: "v", Lease: time.Minute, Owner: "o", Files: "sent"}, nil)
			}
		}
		for i := range jobs {
			b := &jobs[i]
			for _, token := range slices.Sorted(maps.Keys(b.ends)) {
				if now >= before {
					b.used += tick
				}
				if b.ends[token] > now {
					continue
				}
				h := w.state.held[(&heldAttempt{job: w.state.jobs[b.key], token: token}).name()]
				w.state.free = append(w.state.free, h.slot)
				delete(w.state.held, h.name())
				delete(b.ends, token)
				delete(b.out, token)
				b.dispatcher.Remove(token)
			}
			for len(b.out) < b.most {
				b.next++
				b.out[b.next] = true
				b.dispatcher.Add(b.next)
			}
		}
		for range 2 { // offers, and what answers them
			started = append(started, w.state.schedule(time.Now())...)
			for i := range jobs {
				b := &jobs[i]
				j := w.state.jobs[b.key]
				if j == nil {
					continue
				}
				u := fleet.WorkerStatus{Instance: "w", Node: "w", Round: j.round, Credit: j.credit, Slots: slots, Full: true}
				for _, h := range w.state.held {
					if h.job == j {
						u.Holds = append(u.Holds, h.token)
					}
				}
				b.dispatcher.Update(u, time.Now())
				d := fleet.CoordinatorMessage{Key: b.key, Owner: "o", Round: j.round}
				for _, g := range b.dispatcher.Assign(time.Now()) {
					if g.Round == j.round {
						d.Tasks = append(d.Tasks, fleet.Task{Assignment: agent.Assignment{Token: g.Token}})
					}
				}
				if len(d.Tasks) > 0 {
					w.delivered(&nats.Msg{Data: encoded(d)})
				}
			}
		}
		synctest.Wait()
		for _, h := range started {
			for i := range jobs {
				if b := &jobs[i]; b.key == h.job.key {
					b.ends[h.token] = now + b.each
				}
			}
		}
		started = nil
		time.Sleep(tick)
	}
	return jobs
}
