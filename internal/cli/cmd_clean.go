package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"prodigy/internal/check"
	"prodigy/internal/dlq"
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/term"
)

// cleanAge is the default minimum age of the last event of a job, used when neither a job nor an age is given.
const cleanAge = 30 * 24 * time.Hour

// cleanOptions say which jobs clean removes.
type cleanOptions struct {
	// jobID is empty for all jobs.
	jobID  jobName
	format term.Format
	// older is how long ago the last event of a job must be at least.
	older time.Duration
	// archive is a directory. Empty means that logs are not kept.
	archive string
	// force removes jobs that can be resumed or have dead letters as well.
	force  bool
	dryRun bool
	// yes answers the question.
	yes bool
}

// newCleanCommand returns the clean command, also available as events clean.
func newCleanCommand(con *console) *cobra.Command {
	var o cleanOptions
	cmd := &cobra.Command{
		Use:   "clean [job]",
		Short: "Remove old jobs",
		Long: `Remove old jobs and all their files. Without arguments, considers the jobs of this project; with
--all, jobs of all directories. A job named explicitly is removed regardless of its age.

Resumable jobs (stopped or killed) and jobs with dead letters are kept unless --force is given.
Running jobs are never removed.`,
		Args:              atMost(1),
		ValidArgsFunction: completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] == "all" {
				return usagef("to include jobs of all directories, use --all")
			}
			if len(args) == 1 && slices.Contains(strings.Fields("worktrees sessions logs state events dlq"),
				args[0]) {
				return usagef("cannot remove %q alone: prodigy clean removes whole jobs, prodigy events clean "+
					"their events, and prodigy dlq clear dead letters", args[0])
			}
			var err error
			if o.jobID, err = jobNamed(cmd, args); err != nil {
				return err
			}
			if o.jobID.id == "" && !cmd.Flags().Changed("older-than") {
				o.older = cleanAge
			}
			return runClean(cmd.Context(), con, o, terminalAsker(con, o.yes), time.Now())
		},
	}
	addFormat(cmd, &o.format, term.JSON, term.JSONL, term.CSV)
	f := cmd.Flags()
	f.String("job-id", "", "only this job (id or part of it, workflow name, or latest)")
	_ = cmd.RegisterFlagCompletionFunc("job-id", completeJobs)
	f.Bool("all", false, "include jobs of all directories")
	f.Var(durationFlag(&o.older), "older-than",
		"only jobs inactive for longer than this (default 30d, unless a job is named)")
	f.StringVar(&o.archive, "archive", "", "archive each log to <directory>/<repo>/<job>/events.jsonl.zst first")
	f.BoolVar(&o.force, "force", false, "also remove resumable jobs and jobs with dead letters")
	f.BoolVar(&o.dryRun, "dry-run", false, "list what would be removed, without removing it")
	f.BoolVarP(&o.yes, "yes", "y", false, "skip the confirmation prompt")
	return cmd
}

// oldJob is a job that clean may remove.
type oldJob struct {
	job jobs.Job
	// last is the last record when the job was inspected. A job that has another one by now is kept.
	last events.Record

	JobID     string     `json:"job_id"`
	State     jobs.State `json:"state"`
	LastEvent time.Time  `json:"last_event"`
	// Bytes is the size of all files of the job.
	Bytes       int64 `json:"bytes"`
	DeadLetters int   `json:"dead_letters"`
	// Removed is set with --dry-run as well, for jobs that would be removed.
	Removed bool `json:"removed"`
	// Kept says why the job is kept. It is empty for one that is removed.
	Kept string `json:"kept,omitempty"`
}

// runClean lists the jobs, asks, and removes them. Without a terminal to ask on it refuses, unless --yes or --dry-run
// is given. If the answer is no it exits with 1.
func runClean(ctx context.Context, con *console, o cleanOptions, ask asker, now time.Time) error {
	home, err := homeOf(o.jobID.all)
	if err != nil {
		return err
	}
	old, err := o.candidates(con, home, now)
	if err != nil {
		return err
	}
	if ask == nil && !o.dryRun {
		return refusef("no terminal for confirmation; use --yes, or --dry-run to list the jobs")
	}
	if !o.dryRun {
		if err := home.FinishRemovals(); err != nil {
			return err
		}
		if err := o.removeAll(ctx, con, old, ask); err != nil {
			return err
		}
	}
	return errors.Join(o.print(con, old), o.refused(old))
}

// refused returns an error if a job was named and is kept.
func (o cleanOptions) refused(old []oldJob) error {
	if o.jobID.id == "" || len(old) == 0 || old[0].Kept == "" {
		return nil
	}
	return fmt.Errorf("job %s kept: %s", old[0].JobID, old[0].Kept)
}

// candidates returns the jobs that are old enough; Kept says why some of them are kept all the same.
func (o cleanOptions) candidates(con *console, home jobs.Home, now time.Time) ([]oldJob, error) {
	all, err := home.List()
	if o.jobID.id != "" && err == nil {
		var job jobs.Job
		job, err = findJob(o.jobID)
		all = []jobs.Job{job}
	}
	if err != nil {
		return nil, err
	}
	old := []oldJob{}
	for _, job := range all {
		meta, err := job.ReadMeta()
		if err == nil && now.Sub(meta.Started) < o.older {
			continue // its log cannot be older
		}
		c, err := o.candidate(job)
		switch {
		case err != nil && o.jobID.id != "":
			return nil, err
		case err != nil:
			con.say().Printf("warning: job %s kept: %v", job.ID, err)
		case now.Sub(c.LastEvent) >= o.older:
			old = append(old, c)
		}
	}
	return old, nil
}

// candidate reads what clean shows of a job. The job is not locked: remove looks again whether it is still as it was.
func (o cleanOptions) candidate(place jobs.Job) (oldJob, error) {
	summary, err := job.Summarize(place)
	if err != nil {
		return oldJob{}, err
	}
	last, err := events.Last(place.EventsDir())
	if err != nil {
		return oldJob{}, err
	}
	letters, err := dlq.Read(place.DLQFile())
	if err != nil {
		return oldJob{}, err
	}
	size := int64(0)
	for _, dir := range []string{place.EventsDir(), place.StateDir(), filepath.Dir(place.DLQFile())} {
		n, err := sizeOf(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return oldJob{}, err
		}
		size += n
	}
	c := oldJob{
		job: place, last: last, JobID: place.ID, State: summary.State, LastEvent: last.Time, Bytes: size,
		DeadLetters: len(letters),
	}
	c.Kept = c.reason(o.force)
	c.Removed = c.Kept == ""
	return c, nil
}

// reason returns why the job is kept, or "" if it may be removed.
func (c oldJob) reason(force bool) string {
	switch {
	case c.State == jobs.Running:
		return "still running"
	case force:
		return ""
	case c.State != jobs.Completed && c.State != jobs.Failed && c.State != jobs.Cancelled:
		return "was " + string(c.State) + " and can be resumed (remove it with --force)"
	case c.DeadLetters > 0:
		return "has " + check.Counted(c.DeadLetters, "dead letter") + " (remove it with --force)"
	}
	return ""
}

// sizeOf returns the bytes of the files below dir. It does not follow links.
func sizeOf(dir string) (int64, error) {
	var size int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	return size, err
}

// removeAll asks for confirmation and removes the jobs that are not kept.
func (o cleanOptions) removeAll(ctx context.Context, con *console, old []oldJob, ask asker) error {
	n := 0
	for _, c := range old {
		if c.Removed {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	if !o.yes {
		table := term.Rows[oldJob]{Format: term.Human, Look: con.errLook(), Columns: oldJobColumns}
		if _, err := table.Print(con.err, term.Each(old)); err != nil {
			return err
		}
	}
	if err := ask.agreed(con, fmt.Sprintf("Remove %s permanently?", check.Counted(n, "job"))); err != nil {
		return err
	}
	for i := range old {
		if !old[i].Removed {
			continue
		}
		if err := o.remove(ctx, &old[i]); err != nil {
			return err
		}
	}
	return nil
}

// remove removes one job, unless a process works on it now or has done so since it was inspected.
func (o cleanOptions) remove(ctx context.Context, c *oldJob) error {
	lock, err := c.job.Lock()
	if errors.Is(err, jobs.ErrLocked) {
		c.Removed, c.Kept = false, "still running"
		return nil
	}
	if err != nil {
		return err
	}
	last, err := events.Last(c.job.EventsDir())
	if err == nil && last.Seq != c.last.Seq {
		c.Removed, c.Kept = false, "continued in the meantime"
		return lock.Unlock()
	}
	if err == nil && o.archive != "" {
		err = o.keepLog(c.job)
	}
	if err != nil {
		return errors.Join(err, lock.Unlock())
	}
	if err := mapreduce.RemoveWorkspaces(ctx, c.job, os.Environ()); err != nil {
		return errors.Join(err, lock.Unlock())
	}
	return c.job.Remove(lock)
}

// keepLog packs all log files of a job into one archive, which replaces an earlier one of the same job.
func (o cleanOptions) keepLog(job jobs.Job) error {
	dir := filepath.Join(o.archive, job.Repo, job.ID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("archive the log: %w", err)
	}
	err := writeWhole(filepath.Join(dir, "events.jsonl.zst"),
		func(w io.Writer) error { return events.Pack(w, job.EventsDir()) })
	if err != nil {
		return fmt.Errorf("archive the log of job %s: %w", job.ID, err)
	}
	return nil
}

// print prints what was removed and what was kept, or with --dry-run what would be.
func (o cleanOptions) print(con *console, old []oldJob) error {
	if o.format != term.Human || o.dryRun && len(old) > 0 {
		_, err := printRows(con, o.format, oldJobColumns, term.Each(old))
		return err
	}
	if len(old) == 0 {
		con.say().Print("No jobs to remove.")
		return nil
	}
	for _, c := range old {
		if c.Removed {
			con.say().Printf("removed job %s", c.JobID)
		} else if o.jobID.id == "" {
			con.say().Printf("job %s kept: %s", c.JobID, c.Kept)
		}
	}
	return nil
}

// oldJobColumns are the columns of clean --dry-run, and of the table before its question.
var oldJobColumns = []term.Column[oldJob]{
	{Key: "job_id", Head: "JOB"},
	{Key: "state", Head: "STATE"},
	{Key: "last_event", Head: "LAST EVENT", Value: func(c oldJob) any { return c.LastEvent }, Drop: 2},
	{Key: "bytes", Head: "BYTES", Drop: 1},
	{Key: "dead_letters", Head: "DEAD LETTERS", Drop: 3},
	{Key: "removed"},
	{Key: "kept", Head: "STAYS", Cell: func(c oldJob) string { return cmp.Or(c.Kept, "no") }},
}
