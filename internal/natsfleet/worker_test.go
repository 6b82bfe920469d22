package natsfleet

import (
	"context"
	"testing"
	"time"

	"prodigy/internal/fleet"
)

// newTestWorker returns a worker without a connection, whose loop does not run.
func newTestWorker(t testing.TB) *worker {
	w := newWorker(fleet.WorkerOptions{
		Version: "test", Slots: 1, Home: t.TempDir(), Say: func(text string) { t.Log(text) },
	})
	w.state.free = nil
	w.life, w.end = context.WithCancel(t.Context())
	return w
}

// newTestJob has a worker take part in a job.
func newTestJob(w *worker, key string, lease time.Duration) *workerJob {
	j := newWorkerJob(key)
	j.ID, j.Lease = key, lease
	j.life, j.cancel = context.WithCancelCause(w.life)
	w.state.jobs[key] = j
	return j
}

// forget has a worker forget a job.
func forget(w *worker, key string) { w.turn(func(s *workerState) { w.forget(s, key) }) }

// hold has a worker hold an attempt of a job that runs, and returns it with the context of its commands.
func (w *worker) hold(j *workerJob, token int64) (*heldAttempt, context.Context) {
	h := &heldAttempt{job: j, token: token}
	ctx, cancel := context.WithCancelCause(j.life)
	h.cancel = cancel
	w.state.held[h.name()] = h
	return h, ctx
}
