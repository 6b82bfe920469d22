package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"prodigy/internal/check"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/term"
)

// cleanAge is the default minimum age of the last event of a job, used when neither a job nor an age is given.
const cleanAge = 30 * 24 * time.Hour

// cleanOptions say which jobs clean removes.
type cleanOptions struct {
	mapreduce.Clean
	// jobID is empty for all jobs.
	jobID  jobName
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
			var err error
			if o.jobID, err = jobNamed(cmd, args); err != nil {
				return err
			}
			if o.jobID.id == "" && !cmd.Flags().Changed("older-than") {
				o.Older = cleanAge
			}
			return runClean(cmd.Context(), con, o)
		},
	}
	addFormat(con, cmd, term.JSON, term.JSONL, term.CSV)
	cmd.Flags().String("job-id", "", "only this job (id or part of it, workflow name, or latest)")
	_ = cmd.RegisterFlagCompletionFunc("job-id", completeJobs)
	cmd.Flags().Bool("all", false, "include jobs of all directories")
	addFlag(cmd, &o.Older, "older-than",
		"only jobs inactive for longer than this (default 30d, unless a job is named)")
	addFlag(cmd, &o.Archive, "archive", "archive each log to <directory>/<repo>/<job>/events.jsonl.zst first")
	addFlag(cmd, &o.Force, "force", "also remove resumable jobs and jobs with dead letters")
	addFlag(cmd, &o.dryRun, "dry-run", "list what would be removed, without removing it")
	addFlag(cmd, &o.yes, "yes,y", "skip the confirmation prompt")
	return cmd
}

// runClean lists the jobs, asks, and removes them.
func runClean(ctx context.Context, con *console, o cleanOptions) error {
	home, err := homeOf(o.jobID.all)
	if err != nil {
		return err
	}
	old, err := o.candidates(con, home)
	if err == nil && !o.dryRun {
		if err = canAsk(o.yes); err == nil {
			err = home.FinishRemovals()
		}
		if err == nil {
			err = o.removeAll(ctx, con, old)
		}
	}
	if err == nil {
		err = o.print(con, old)
	}
	if err == nil && o.jobID.id != "" && len(old) > 0 && old[0].Kept != "" {
		err = fmt.Errorf("job %s kept: %s", old[0].JobID, old[0].Kept)
	}
	return err
}

// candidates returns the jobs that are old enough; Kept says why some of them are kept all the same.
func (o cleanOptions) candidates(con *console, home jobs.Home) ([]mapreduce.OldJob, error) {
	all, err := home.List()
	if o.jobID.id != "" && err == nil {
		var job jobs.Job
		job, err = findJob(o.jobID)
		all = []jobs.Job{job}
	}
	if err != nil {
		return nil, err
	}
	old := []mapreduce.OldJob{}
	for _, job := range all {
		c, isOld, err := o.Inspect(job, time.Now())
		switch {
		case err != nil && o.jobID.id != "":
			return nil, err
		case err != nil:
			con.sayf("warning: job %s kept: %v", job.ID, err)
		case isOld:
			old = append(old, c)
		}
	}
	return old, nil
}

// removeAll asks for confirmation and removes the jobs that are not kept.
func (o cleanOptions) removeAll(ctx context.Context, con *console, old []mapreduce.OldJob) error {
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
		table := term.Rows[mapreduce.OldJob]{Format: term.Human, Look: con.errLook(), Columns: oldJobColumns}
		if _, err := table.Print(con.err, term.Each(old)); err != nil {
			return err
		}
	}
	if err := con.confirm(o.yes, fmt.Sprintf("Remove %s permanently?", check.Counted(n, "job"))); err != nil {
		return err
	}
	for i := range old {
		if err := o.Remove(ctx, &old[i]); err != nil {
			return err
		}
	}
	return nil
}

// print prints what was removed and what was kept, or with --dry-run what would be.
func (o cleanOptions) print(con *console, old []mapreduce.OldJob) error {
	if con.format != term.Human || o.dryRun && len(old) > 0 {
		return printRows(con, oldJobColumns, term.Each(old))
	}
	if len(old) == 0 {
		con.sayf("No jobs to remove.")
		return nil
	}
	for _, c := range old {
		if c.Removed {
			con.sayf("removed job %s", c.JobID)
		} else if o.jobID.id == "" {
			con.sayf("job %s kept: %s", c.JobID, c.Kept)
		}
	}
	return nil
}

// oldJobColumns are the columns of clean --dry-run, and of the table before its question.
var oldJobColumns = []term.Column[mapreduce.OldJob]{
	{Key: "job_id", Head: "JOB"},
	{Key: "state", Head: "STATE", Cell: func(c mapreduce.OldJob) string { return c.StateText }},
	{Key: "last_event", Head: "LAST EVENT", Value: func(c mapreduce.OldJob) any { return c.LastEvent }, Drop: 2},
	{Key: "bytes", Head: "BYTES", Drop: 1},
	{Key: "dead_letters", Head: "DEAD LETTERS", Drop: 3},
	{Key: "removed"},
	{Key: "kept", Head: "KEPT BECAUSE"},
}
