package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
)

// resumeOptions are the flags of resume besides those of all runs.
type resumeOptions struct {
	jobOptions
}

// newResumeCommand returns the command that continues a job whose process has ended.
func newResumeCommand(con *console) *cobra.Command {
	var o resumeOptions
	cmd := &cobra.Command{
		Use:   "resume [job]",
		Short: "Resume a stopped job",
		Long: `Resume a stopped job. Finished items are not run again, interrupted items are restarted, and pending
retries keep their due times. The job defaults to the latest; name it by its id or a part of it, its
workflow, or latest.

Exit codes are those of run; 0 if the job had already completed.`,
		Example: `  prodigy resume
  prodigy resume mapreduce-20261120-1615 --max-parallel 2
  prodigy resume --workflow fixed.yml`,
	}
	onJob(con, cmd, func(ctx context.Context, con *console, job jobs.Job) error {
		if err := o.checkPrint(con); err != nil {
			return err
		}
		if err := o.fleet.find(cmd); err != nil {
			return err
		}
		return runResume(ctx, con, job, o)
	})
	o.add(con, cmd)
	o.addPrint(cmd, "print all output in item order, including items finished before")
	cmd.Flags().Lookup("pool").Usage += " (default: unchanged; none leaves the pool)"
	addFlag(cmd, &o.replacement, "workflow", "use this workflow file from now on; finished steps must be "+
		"unchanged")
	addFlag(cmd, &o.Accept, "accept",
		"continue despite a failed canary or ramp step")
	addFlag(cmd, &o.Force, "force", "resume a cancelled job")
	cmd.Flags().IntVar(&o.MaxCrashes, "max-crashes", 2,
		"after this many unexplained crashes while an item ran, run it alone, and dead-letter it after as many "+
			"more; 0 disables")
	return cmd
}

// runResume continues a job. A completed one is left alone: only its results are brought up to date, and its outcome
// is printed again. With another workflow file it is opened all the same, since the file may have more to do.
func runResume(ctx context.Context, con *console, place jobs.Job, o resumeOptions) error {
	last, err := job.LastOf(place)
	var earlier job.Summary
	if err == nil && last.State == jobs.Completed {
		// The whole log is read, so that a resume reports damage to it.
		earlier, err = job.SummarizeAnd(place, func(events.Record) {})
	}
	completed := earlier.State == jobs.Completed
	switch {
	case err != nil:
		return err
	case completed && o.replacement == "":
		if err := job.UpdateResults(place); err != nil {
			return err
		}
		return o.nothingDone(con, finishedRun{Result: mapreduce.Result{
			Job: earlier.Job, State: jobs.Completed, Reason: "the job had already completed; nothing to do",
			Metrics: earlier.Metrics, Duration: earlier.Duration, Results: ifThere(place.ResultsFile()),
			ReduceStale: earlier.ReduceStale, ReduceHeld: earlier.ReduceHeld,
		}})
	}
	conclude := o.conclude
	if completed {
		conclude = o.nothingDone
	}
	return o.again(ctx, con, place, conclude,
		func(ctx context.Context, c mapreduce.Config) (mapreduce.Result, error) {
			return mapreduce.Resume(ctx, c, place)
		})
}

// nothingDone reports that the job had already completed.
func (o resumeOptions) nothingDone(con *console, e finishedRun) error {
	code := exitOK
	if e.ReduceStale || e.ReduceHeld {
		code = exitLeft
	}
	if !o.quiet {
		con.say().Print(e.Reason)
		e.print(con)
	}
	if other, ok := unfinished(); ok {
		con.sayf("an earlier job has not finished: %s", resumeCommand(other, flagsToResume(other)))
	}
	if err := o.printRest(con, e.Job); err != nil {
		return unlessClosed(err)
	}
	return con.end(code, e.outcome(code))
}

// unfinished returns the newest job of this directory that was killed or stopped.
func unfinished() (jobs.Job, bool) {
	home, err := homeOf(false)
	if err != nil {
		return jobs.Job{}, false
	}
	all, _ := home.List() // one that cannot be read is not suggested
	i := slices.IndexFunc(all, func(j jobs.Job) bool {
		last, err := job.LastOf(j)
		return err == nil && (last.State == "" || last.State == jobs.Stopped) && !j.Running()
	})
	if i < 0 {
		return jobs.Job{}, false
	}
	return all[i], true
}
