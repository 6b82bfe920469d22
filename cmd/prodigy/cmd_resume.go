package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
)

type resumeOptions struct {
	jobOptions
	id string
}

func newResumeCommand(con *console) *cobra.Command {
	var o resumeOptions
	cmd := &cobra.Command{
		Use:   "resume [job]",
		Short: "Go on with a job where it stopped",
		Long: `Go on with a job where it stopped. The job is named by its id, the beginning of it, or latest, which is the default.

Finished items are not run again. What was in flight starts again, and retries that were waiting keep their time. The exit codes
are those of run, but 0 when the job had completed before.`,
		Example: `  prodigy resume
  prodigy resume mapreduce-20261120-1615 --max-parallel 2`,
		Args:              atMostOne,
		ValidArgsFunction: completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.id = jobArgument(args)
			return runResume(cmd.Context(), con, o)
		},
	}
	o.add(cmd)
	f := cmd.Flags()
	f.Var(positive{&o.maxParallel}, "max-parallel", "how many agents run at once")
	f.IntVar(&o.maxCrashes, "max-crashes", 2, "dead-letter an item that was in flight when the run died so often; 0: never")
	return cmd
}

// jobArgument returns the job that args names: the latest when they name none.
func jobArgument(args []string) string {
	if len(args) == 0 {
		return "latest"
	}
	return args[0]
}

func runResume(ctx context.Context, con *console, o resumeOptions) error {
	job, err := findJob(o.id)
	if err != nil {
		return err
	}
	completed, err := mapreduce.MayHaveCompleted(job)
	if err != nil {
		return err
	}
	if completed {
		// All of the log is read: whoever asks for a resume is told of damage to it.
		earlier, err := mapreduce.SummarizeAnd(job, func(events.Record) {})
		if err != nil {
			return err
		}
		if earlier.State == string(mapreduce.Completed) {
			return o.nothingToDo(con, earlier)
		}
	}
	return o.again(ctx, con, job, o.conclude, func(ctx context.Context, c mapreduce.Config) (mapreduce.Result, error) {
		return mapreduce.Resume(ctx, c, job)
	})
}

// nothingToDo says that a job had completed before.
func (o resumeOptions) nothingToDo(con *console, s mapreduce.Summary) error {
	e := ended{Result: mapreduce.Result{
		Job: s.Job, State: mapreduce.Completed, Reason: "the job had completed before; nothing was run",
		Metrics: s.Metrics, Duration: s.Duration, Results: ifThere(s.Job.ResultsFile()),
	}}
	if !o.quiet {
		_, _ = fmt.Fprintf(con.err, "%s\n", e.Reason)
		e.print(con.err)
	}
	if o.format == asJSON {
		return printJSON(con.out, e.outcome(exitOK))
	}
	return nil
}

// again works once more on a job as it was recorded, and then says how that ended.
func (o jobOptions) again(ctx context.Context, con *console, job jobs.Job, conclude func(*console, ended) error, do work) error {
	w, err := loadRecorded(job)
	if err != nil {
		return err
	}
	home, claude, err := surroundings(w)
	if err != nil {
		return err
	}
	found, err := resolveRecorded(ctx, job, w)
	if err != nil {
		return err
	}
	con.hide(found.Mask)
	c := o.config(home, claude)
	c.Settings = found
	end, err := watch(ctx, c, newPrinter(con, o, w), do)
	if err != nil {
		return o.afterError(con, end, err)
	}
	return conclude(con, end)
}
