package natsfleet

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"prodigy/internal/fleet"
)

// Coordinators that do not answer learn from the broker that a worker has ended, however many they are.
func TestTheEndOfAWorkerIsLeftForEachCoordinatorThatDoesNotAnswer(t *testing.T) {
	f := newField(t)
	c := f.coordinator()
	w := newWorker(fleet.WorkerOptions{Name: "a"})
	w.brokerConn = c.brokerConn
	w.node.Instance = w.instance()
	w.life, w.end = context.WithCancel(t.Context())
	defer w.end()
	for _, key := range []string{"one", "two", "three"} {
		w.state.jobs[key] = &workerJob{key: key, Job: fleet.Job{Lease: time.Minute}}
		if _, err := c.nc.Subscribe(ownerSubject(key), func(*nats.Msg) {}); err != nil { // as one that is frozen
			t.Fatal(err)
		}
	}
	w.announceEnd()
	if got := streamInfo(t, connected(t, f), outStream).Msgs; got != 3 {
		t.Errorf("the broker has the end of the worker for %d jobs, want 3", got)
	}
}
