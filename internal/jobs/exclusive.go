package jobs

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"prodigy/internal/duration"

	"github.com/gofrs/flock"
)

// lookEvery is how often Exclusive looks whether another job still runs.
const lookEvery = 50 * time.Millisecond

// Exclusive waits until no job of the workflow file at path runs in dir, and calls told with each job that it waits for.
// Until unlock is called, or the process dies, other callers wait as well, so that of several only one starts a job.
func (h Home) Exclusive(
	ctx context.Context, path, dir string, told func(Job),
) (unlock func() error, err error) {
	locks := filepath.Join(h.Root, "exclusive")
	if err := MakeDirs(locks); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(locks, Digest([]byte(dir+"\x00"+path))))
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
			if err := duration.Sleep(ctx, lookEvery); err != nil {
				return nil, err
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
