package natsfleet

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"prodigy/internal/fleet"
)

// A job that no coordinator speaks of is forgotten when nothing of it is here, and one that has ended at once.
func TestWhenAJobIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorker(t)
		entry := fleet.Job{V: fleet.Protocol, Version: "test", Owner: "o", Lease: time.Minute, Dir: t.TempDir()}
		say := func(key string, j fleet.Job) {
			j.ID = key
			w.announced(&nats.Msg{Subject: jobsSubject + key, Data: encoded(j)})
			synctest.Wait()
		}
		has := func(want ...string) {
			t.Helper()
			w.mu.Lock()
			defer w.mu.Unlock()
			if len(w.state.jobs) != len(want) {
				t.Errorf("it knows %d jobs, want %q", len(w.state.jobs), want)
			}
			for _, key := range want {
				if w.state.jobs[key] == nil {
					t.Errorf("it has forgotten %s", key)
				}
			}
		}
		for _, key := range []string{"there", "idle", "busy"} {
			say(key, entry)
		}
		w.hold(w.state.jobs["busy"], 1)
		time.Sleep(2 * time.Minute)
		say("there", entry)
		say("busy", entry)
		w.forgetSilent(time.Now())
		has("there", "idle", "busy")
		time.Sleep(time.Second)
		w.forgetSilent(time.Now())
		has("there", "busy")
		over := entry
		over.Over, over.Serial = true, 1
		say("there", over)
		has("busy")
		over.Owner, over.Epoch = "sweeper", -1
		say("busy", over)
		has("busy")
		w.end()
	})
}

// A worker that had no connection when its job ended finds that out later.
func TestAWorkerThatHasMissedTheEndOfItsJob(t *testing.T) {
	f := newField(t)
	c := f.coordinator()
	w := newTestWorker(t)
	w.brokerConn = c.brokerConn
	for _, key := range []string{"over", "paused", "lost"} {
		w.hold(newTestJob(w, key, time.Minute), 1)
		if key == "lost" { // by the broker
			continue
		}
		if err := c.lock(t.Context(), key, key); err != nil {
			t.Fatal(err)
		}
		c.key = key
		if err := c.unlock(t.Context(), key == "over"); err != nil {
			t.Fatal(err)
		}
	}
	c.key = ""
	w.forgetSilent(time.Now())
	for _, key := range []string{"over", "paused", "lost"} {
		if knows := w.state.jobs[key] != nil; knows != (key != "over") {
			t.Errorf("it knows the job %s: %v", key, knows)
		}
	}
}
