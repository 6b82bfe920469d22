package cli

import (
	"context"
	"errors"
	"math"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/process"
	"prodigy/internal/settings"
	"prodigy/internal/term"
)

// runOptions are the flags of run. A plan and a simulation take them as well, as far as they have flags for them.
type runOptions struct {
	jobOptions
	settings settingOptions
	path     string
	// dryRun plans in place of running.
	dryRun bool
	// wait waits for a job of the same workflow, for waitMost at most.
	wait     bool
	waitMost time.Duration
}

// newRunCommand returns the command that runs workflows.
func newRunCommand(con *console) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run <workflow>...",
		Short: "Run a workflow",
		Long: `Run one or more workflows, each as a new job. Several workflows run in sequence with the same flags;
all are validated first, and the sequence ends at the first non-zero exit code. A workflow can use
the results of an earlier one with input: {job: latest:NAME}.

Progress goes to stderr, results to stdout. Ctrl-C stops the job; "prodigy resume" resumes it.

Exit codes:
  0              all items succeeded
  1              the job failed, was cancelled, or its error policy ended it
  2              wrong usage or an invalid workflow; nothing was run
  3              completed, but items were dead-lettered or skipped
  75             stopped as asked: drained, or outside its windows (--exit-outside)
  130, 131, 143  stopped by a signal`,
		Example: `  prodigy run workflow.yml
  prodigy run workflow.yml --max-parallel 4 --json > outcome.json
  prodigy run convert.yml upload.yml`,
		Args:              atLeastOne("workflow"),
		ValidArgsFunction: completeWorkflows,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("wait-timeout") {
				o.wait = true
			} else {
				o.waitMost = math.MaxInt64
			}
			return o.fleet.find(cmd)
		},
	}
	onArgs(con, cmd, o.runAll)
	o.add(con, cmd)
	o.settings.add(cmd)
	o.settings.addWorkspace(cmd)
	addFlag(cmd, &o.Seed, "seed", "random seed for jitter (0 for a random one)")
	addMaxDelay(cmd, &o.MaxDelay)
	addFlag(cmd, &o.AllowDirty, "allow-dirty",
		"start despite uncommitted changes in the repository, which git workspaces do not see")
	addFlag(cmd, &o.wait, "wait", "if this workflow is running here, start when that job has ended")
	addFlag(cmd, &o.waitMost, "wait-timeout",
		"like --wait, but exit with 75 if it still runs after this long")
	addSince(cmd, &o.Since)
	o.addPrint(cmd, "print output in item order (implies --print; also with --group)")
	addFlag(cmd, &o.dryRun, "dry-run", "same as plan")
	return cmd
}

// checkedAs returns the configuration that a workflow is checked for before it runs.
func (o runOptions) checkedAs() mapreduce.Config {
	c := o.Config
	c.OnFleet = o.fleet.wanted()
	return c
}

// runAll runs workflows one after the other, until one does not end with exit code 0. It looks for mistakes in all of
// several ones first. A file that is missing may be made by the workflows before.
func (o *runOptions) runAll(ctx context.Context, con *console, paths []string) error {
	var stdin string // the workflow that reads it
	for i, path := range paths {
		if len(paths) == 1 {
			break
		}
		c := o.checkedAs()
		c.InputMayCome = i > 0
		w, err := load(ctx, path, c, o.settings, settings.ToPlan)
		if err != nil {
			return err
		}
		if !o.dryRun {
			if _, err := o.findTools(w.Workflow, o.fleet.stepsHere(w.Workflow)); err != nil {
				return err
			}
		}
		if w.Map != nil && w.Map.Input.Stdin {
			if stdin != "" {
				return refusef("%s and %s both read items from stdin, which can only be read once", stdin, path)
			}
			stdin = path
		}
	}
	out, errs, secrets := con.out, con.err, con.secrets
	for i, path := range paths {
		if i > 0 { // each job hides secrets of its own
			con.close()
			con.out, con.err, con.secrets = out, errs, secrets
		}
		o.path = path
		if err := o.run(ctx, con); err != nil {
			if rest := paths[i+1:]; len(rest) > 0 {
				con.sayf("not run, because %s exited with a non-zero code: %s",
					term.Visible(path), term.Visible(strings.Join(rest, " ")))
			}
			return err
		}
	}
	return nil
}

// run runs one workflow as a new job, or plans it with --dry-run.
func (o runOptions) run(ctx context.Context, con *console) error {
	if o.dryRun {
		return runPlan(ctx, con, o)
	}
	if err := errors.Join(o.checkPrint(con), o.checkEcho(con)); err != nil {
		return err
	}
	if o.wait {
		end, err := o.await(ctx, con)
		if err != nil {
			return err
		}
		defer check.Quietly(end)
	}
	w, err := load(ctx, o.path, o.checkedAs(), o.settings, settings.ToRun)
	if err != nil {
		con.note(w.elsewhere()) // where files were looked for
		return err
	}
	o.fleet = o.fleet.forWorkflow(w.Workflow)
	if err := o.fleet.check(con, w.Workflow, o.quiet); err != nil {
		return err
	}
	return o.start(ctx, con, w)
}

// await waits until no other job runs the workflow here. Until end is called, other runs that wait start none.
func (o runOptions) await(ctx context.Context, con *console) (end func() error, err error) {
	home, err := jobs.FromEnv()
	if err != nil {
		return nil, err
	}
	dir, err := currentDir()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.waitMost)
	defer cancel()
	err = untilSignal(ctx, func(ctx context.Context) (err error) {
		end, err = home.Exclusive(ctx, process.Resolve(dir, o.path), dir, func(other jobs.Job) {
			if !o.quiet {
				con.sayf("waiting for job %s, which runs this workflow", other.ID)
			}
		})
		return err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		con.sayf("nothing was started: %s is still running after %s", term.Visible(o.path),
			duration.Format(o.waitMost))
		err = status(exitAsAsked)
	}
	return end, err
}

// start runs w as a new job.
func (o runOptions) start(ctx context.Context, con *console, w checked) error {
	con.useSecrets(w.settings)
	t, err := o.findTools(w.Workflow, o.fleet.stepsHere(w.Workflow))
	if err != nil {
		return err
	}
	if !o.quiet {
		printProblems(con, w.warnings, "warning: ")
		con.note(w.elsewhere())
	}
	c := o.config(t)
	c.Dir, c.MaxDelay, c.Stdin, c.Settings, c.Values = w.dir, w.maxDelay, os.Stdin, w.settings, w.values
	o.clean(ctx, con, t.home)
	return o.runJob(ctx, con, c, w.Workflow, o.conclude,
		func(ctx context.Context, c mapreduce.Config) (mapreduce.Result, error) {
			return mapreduce.Run(ctx, c, w.Workflow, w.source)
		})
}

// clean removes jobs that are older than the configuration keeps them. The first time that it removes any, it says so.
func (o runOptions) clean(ctx context.Context, con *console, home jobs.Home) {
	keep := o.fleet.config.Clean
	if keep.Keep == 0 {
		return
	}
	n, err := mapreduce.Clean{Older: keep.Keep, Force: keep.Force}.Sweep(ctx, home, time.Now())
	if err != nil {
		con.sayf("warning: clean: %v", err)
	}
	if n > 0 && !o.quiet && home.Once("cleaned") {
		con.sayf("note: removed %s older than %s, as set by clean in config.yml; this message is shown only once",
			check.Counted(n, "job"), duration.Format(keep.Keep))
	}
}
