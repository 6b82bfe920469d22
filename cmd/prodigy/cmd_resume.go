package main

import (
	"context"

	"github.com/spf13/cobra"

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
		Use:               "resume [job]",
		Short:             "Go on with a job where it stopped",
		Long:              "Go on with a job where it stopped. The job is named by its id, the beginning of it, or latest, which is the default.",
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
	return o.again(ctx, con, job, o.conclude, func(ctx context.Context, c mapreduce.Config) (mapreduce.Result, error) {
		return mapreduce.Resume(ctx, c, job)
	})
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
	end, err := o.watch(ctx, con, o.config(home, claude), collectionOf(w), do)
	if err != nil {
		return afterError(con, end, err)
	}
	return conclude(con, end)
}
