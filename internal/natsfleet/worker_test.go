package natsfleet

import (
	"context"
	"sync"
	"testing"
	"time"

	"prodigy/internal/fleet"
)

// newTestWorker returns a worker without a connection, whose loop does not run.
func newTestWorker(t testing.TB) *worker {
	w := &worker{
		o: fleet.WorkerOptions{Version: "test", Slots: 1, Home: t.TempDir(), Say: func(text string) { t.Log(text) }}, jobs: map[string]*workerJob{},
		held: map[string]*heldAttempt{}, owners: map[string]string{}, asking: map[string]fleet.Job{}, warned: map[string]bool{}, changed: make(chan struct{}, 1),
		proof: time.Now(),
	}
	w.space = sync.NewCond(&w.mu)
	w.life, w.end = context.WithCancel(t.Context())
	return w
}

// newTestJob has a worker take part in a job.
func newTestJob(w *worker, key string, lease time.Duration) *workerJob {
	j := &workerJob{key: key, Job: fleet.Job{ID: key, Lease: lease}, executors: map[string]*jobExecutor{}, arrived: map[int64]bool{}}
	j.life, j.cancel = context.WithCancelCause(w.life)
	w.jobs[key] = j
	return j
}

// hold has a worker hold an attempt of a job that runs, and returns it with the context of its commands.
func (w *worker) hold(j *workerJob, token int64) (*heldAttempt, context.Context) {
	h := &heldAttempt{job: j, token: token}
	ctx, cancel := context.WithCancelCause(j.life)
	h.cancel = cancel
	w.held[h.name()] = h
	return h, ctx
}
