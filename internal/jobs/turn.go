package jobs

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// turnEvery is how often Turn looks whether another job still runs.
const turnEvery = 50 * time.Millisecond

// Turn waits until no job of the workflow file at path runs in dir, and calls told with each job that it waits for. Until
// unlock is called, or the process dies, other callers wait as well, so that of several only one starts a job.
func (h Home) Turn(ctx context.Context, path, dir string, told func(Job)) (unlock func() error, err error) {
	turns := filepath.Join(h.Root, "turns")
	if err := MakeDirs(turns); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(turns, Digest([]byte(dir+"\x00"+path))))
	tick := time.NewTicker(turnEvery)
	defer tick.Stop()
	before := ""
	for {
		other, running, err := h.runningOf(path, dir)
		if err != nil {
			return nil, err
		}
		if !running {
			locked, err := lock.TryLock()
			if err != nil {
				return nil, fmt.Errorf("wait for the other job: %w", err)
			}
			if locked {
				return lock.Unlock, nil
			}
		} else if other.ID != before {
			before = other.ID
			told(other)
		}
		for waiting := true; waiting; waiting = running && other.Running() {
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-tick.C:
			}
		}
	}
}

// runningOf returns the newest job that runs the workflow file at path in dir, if there is one.
func (h Home) runningOf(path, dir string) (Job, bool, error) {
	all, err := h.all()
	for _, job := range all {
		if job.Running() {
			if meta, err := job.ReadMeta(); err == nil && meta.WorkflowPath == path && meta.Dir == dir {
				return job, true, nil
			}
		}
	}
	return Job{}, false, err
}
