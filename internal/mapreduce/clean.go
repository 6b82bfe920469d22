package mapreduce

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/dlq"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
)

// Clean says which jobs are removed, with all their files.
type Clean struct {
	// Older is how long ago the last event of a job must be at least.
	Older time.Duration
	// Archive is a directory that gets the logs of removed jobs. Empty means that they are not kept.
	Archive string
	// Force removes jobs that can be resumed or have dead letters as well.
	Force bool
}

// OldJob is a job that Clean may remove.
type OldJob struct {
	job jobs.Job
	// last is the last record when the job was inspected. A job that has another one by now is kept.
	last events.Record

	JobID string     `json:"job_id"`
	State jobs.State `json:"state"`
	// StateText is the state as people read it.
	StateText string    `json:"state_text"`
	LastEvent time.Time `json:"last_event"`
	// Bytes is the size of all files of the job.
	Bytes       int64 `json:"bytes"`
	DeadLetters int   `json:"dead_letters"`
	// Removed is also set before the job is removed.
	Removed bool `json:"removed"`
	// Kept says why the job is kept. It is empty for one that is removed.
	Kept string `json:"kept,omitempty"`
}

// Inspect reports whether a job is old enough, and returns what is known of it. The job is not locked: Remove looks
// again whether it is still as it was.
func (c Clean) Inspect(place jobs.Job, now time.Time) (old OldJob, isOld bool, err error) {
	meta, err := place.ReadMeta()
	if err == nil && now.Sub(meta.Started) < c.Older {
		return OldJob{}, false, nil // its log cannot be older
	}
	summary, err := job.Summarize(place)
	if err != nil {
		return OldJob{}, false, err
	}
	last, err := events.Last(place.EventsDir())
	if err != nil || now.Sub(last.Time) < c.Older {
		return OldJob{}, false, err
	}
	letters, err := dlq.Read(place.DLQFile())
	if err != nil {
		return OldJob{}, false, err
	}
	old = OldJob{
		job: place, last: last, JobID: place.ID, State: summary.State, StateText: summary.StateShown(),
		LastEvent: last.Time, DeadLetters: len(letters),
	}
	old.Kept = old.reason(c.Force)
	old.Removed = old.Kept == ""
	old.Bytes, err = place.Size()
	return old, true, err
}

// reason returns why the job is kept, or "" if it may be removed.
func (o OldJob) reason(force bool) string {
	switch {
	case o.State == jobs.Running:
		return "still running"
	case force:
		return ""
	case o.State != jobs.Completed && o.State != jobs.Failed && o.State != jobs.Cancelled:
		return "was " + string(o.State) + " and can be resumed (remove it with --force)"
	case o.DeadLetters > 0:
		return "has " + check.Counted(o.DeadLetters, "dead letter") + " (remove it with --force)"
	}
	return ""
}

// Remove removes a job that is not kept, unless a process works on it now or has done so since it was inspected.
func (c Clean) Remove(ctx context.Context, old *OldJob) error {
	if !old.Removed {
		return nil
	}
	lock, err := old.job.Lock()
	if errors.Is(err, jobs.ErrLocked) {
		old.Removed, old.Kept = false, "still running"
		return nil
	}
	if err != nil {
		return err
	}
	last, err := events.Last(old.job.EventsDir())
	if err == nil && last.Seq != old.last.Seq {
		old.Removed, old.Kept = false, "continued in the meantime"
		return lock.Unlock()
	}
	if err == nil && c.Archive != "" {
		err = c.keepLog(old.job)
	}
	if err == nil {
		err = RemoveWorkspaces(ctx, old.job, os.Environ())
	}
	if err != nil {
		return errors.Join(err, lock.Unlock())
	}
	return old.job.Remove(lock)
}

// keepLog packs all log files of a job into one archive, which replaces an earlier one of the same job.
func (c Clean) keepLog(place jobs.Job) error {
	dir := filepath.Join(c.Archive, place.Repo, place.ID)
	err := os.MkdirAll(dir, 0o700)
	var f *os.File
	if err == nil {
		f, err = os.CreateTemp(dir, ".events-*")
	}
	if err == nil {
		err = jobs.Finish(f, filepath.Join(dir, "events.jsonl.zst"), events.Pack(f, place.EventsDir()))
	}
	if err != nil {
		return fmt.Errorf("archive the log of job %s: %w", place.ID, err)
	}
	return nil
}

// Sweep removes what is old in a home, and returns how many jobs it has removed. The newest job of each workflow stays,
// since the next one may take over its results, and so does a job that cannot be read.
func (c Clean) Sweep(ctx context.Context, home jobs.Home, now time.Time) (removed int, err error) {
	all, err := home.List()
	if err != nil {
		return 0, err
	}
	type series struct{ repo, workflow string }
	newest := map[series]bool{}
	for _, place := range all {
		meta, err := place.ReadMeta()
		if of := (series{place.Repo, meta.Workflow}); err != nil || !newest[of] {
			newest[of] = true
			continue
		}
		old, isOld, err := c.Inspect(place, now)
		if err != nil || !isOld {
			continue
		}
		if err := c.Remove(ctx, &old); err != nil {
			return removed, err
		}
		if old.Removed {
			removed++
		}
	}
	return removed, nil
}
