package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/workflow"
)

type runOptions struct {
	jobOptions
	path     string
	seed     uint64
	maxDelay time.Duration
	dryRun   bool
}

func newRunCommand(con *console) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:               "run <workflow>",
		Short:             "Run a workflow as a new job",
		Args:              exactly("workflow"),
		ValidArgsFunction: completeWorkflow,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.path = args[0]
			return runRun(cmd.Context(), con, o)
		},
	}
	o.add(cmd)
	cmd.Flags().Var(positive{&o.maxParallel}, "max-parallel", "how many agents run at once")
	cmd.Flags().Uint64Var(&o.seed, "seed", 0, "seed of the jitter of delays, to repeat them; 0: a random one")
	addMaxDelay(cmd, &o.maxDelay)
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "show what would be done, as plan does")
	return cmd
}

func runRun(ctx context.Context, con *console, o runOptions) error {
	if o.dryRun {
		return runPlan(ctx, con, planOptions{path: o.path, format: o.format, maxDelay: o.maxDelay})
	}
	limit, err := delayCap(o.maxDelay)
	if err != nil {
		return err
	}
	w, err := load(o.path, mapreduce.Config{MaxDelay: limit, MaxParallel: o.maxParallel})
	if err != nil {
		return err
	}
	home, claude, err := surroundings(w.Workflow)
	if err != nil {
		return err
	}
	if !o.quiet {
		printProblems(con.err, w.warnings, "warning: ")
	}
	c := o.config(home, claude)
	c.Dir, c.Seed, c.MaxDelay = w.dir, o.seed, limit
	end, err := o.watch(ctx, con, c, collectionOf(w.Workflow),
		func(ctx context.Context, c mapreduce.Config) (mapreduce.Result, error) {
			return mapreduce.Run(ctx, c, w.Workflow, w.source)
		})
	if err != nil {
		return afterError(con, end, err)
	}
	return o.conclude(con, end)
}

// surroundings returns the home of all jobs and the argv of the AI coding CLI, which must be there if w needs it.
func surroundings(w *workflow.Workflow) (jobs.Home, []string, error) {
	home, err := jobs.FromEnv()
	if err != nil {
		return jobs.Home{}, nil, err
	}
	claude, err := claudeCommand(home)
	if err != nil {
		return jobs.Home{}, nil, err
	}
	return home, claude, checkClaude(w, claude)
}

// collectionOf returns how the failures of a workflow are told: in one summary, unless it says otherwise.
func collectionOf(w *workflow.Workflow) errorpolicy.CollectionKind {
	if kind := w.ErrorPolicy.ErrorCollection.Kind; kind != "" {
		return kind
	}
	return errorpolicy.Aggregate
}

// afterError adds to an error of prodigy what became of the job.
func afterError(con *console, end ended, err error) error {
	if end.Job.ID != "" && end.State != "" {
		_, _ = fmt.Fprintf(con.err, "job %s\nnext: prodigy resume %s\n", end.Job.ID, end.Job.ID)
	}
	return err
}
