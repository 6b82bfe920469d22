package cli

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"prodigy/internal/jobs"
	"prodigy/internal/mapreduce"
	"prodigy/internal/settings"
	"prodigy/internal/telemetry"
	"prodigy/internal/term"
	"prodigy/internal/workflow"
)

// notifyOptions are the flags of notify.
type notifyOptions struct {
	test     string
	settings settingOptions
}

// newNotifyCommand returns the command that sends notifications again, or test messages with --test.
func newNotifyCommand(con *console) *cobra.Command {
	var o notifyOptions
	cmd := &cobra.Command{
		Use:   "notify [job]",
		Short: "Resend undelivered notifications",
		Long: `Resend the notifications of a job that could not be delivered, or were pending when its run was
killed. The job defaults to the latest, and must not be running.

With --test, sends a test message to each receiver of a workflow file.

The exit code is 0 if all were delivered, and 1 otherwise.`,
		Example:           "  prodigy notify latest\n  prodigy notify --test workflow.yml",
		Args:              atMost(1),
		ValidArgsFunction: completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			isTest := o.test != ""
			if isTest && (len(args) > 0 || anyChanged(cmd, "job-id", "all")) {
				return usagef("--test takes a workflow file, not a job")
			}
			if !isTest && anyChanged(cmd, "args", "map", "param", "param-file", "profile") {
				return usagef("--param and --profile require --test; a job keeps its own")
			}
			if isTest {
				return o.sendTest(cmd.Context(), con)
			}
			job, err := findJobNamed(cmd, args)
			if err != nil {
				return err
			}
			return o.run(cmd.Context(), con, job)
		},
	}
	addJobID(cmd)
	o.settings.add(cmd)
	addFlag(cmd, &o.test, "test", "send a test message to each receiver of this workflow `file`")
	addFormat(con, cmd, term.JSON)
	return cmd
}

// run sends what a finished job still owes its receivers. Secrets of the job are read again.
func (o notifyOptions) run(ctx context.Context, con *console, job jobs.Job) error {
	w, err := loadRecorded(job)
	if err != nil {
		return err
	}
	meta, err := job.ReadMeta()
	if err != nil {
		return err
	}
	found, err := resolveAgain(ctx, job, w, nil, nil)
	if err != nil {
		return err
	}
	return report(con, w, found, meta.Dir, func(to []telemetry.Target, told func(telemetry.Outcome)) error {
		return telemetry.Again(ctx, job, w.Name, to, told)
	})
}

// sendTest sends a message to each receiver of a workflow file, which needs no job.
func (o notifyOptions) sendTest(ctx context.Context, con *console) error {
	w, err := load(ctx, o.test, mapreduce.Config{}, o.settings, settings.ToRun)
	if err != nil {
		return err
	}
	return report(con, w.Workflow, w.settings, w.dir, func(to []telemetry.Target, told func(telemetry.Outcome)) error {
		if len(to) == 0 {
			return refusef("%s has no notify: no receivers", o.test)
		}
		return telemetry.Try(ctx, w.Name, to, told)
	})
}

// report prints how the messages ended that send sends to the receivers of a workflow.
func report(con *console, w *workflow.Workflow, s settings.Settings, dir string,
	send func(to []telemetry.Target, told func(telemetry.Outcome)) error,
) error {
	con.hide(s.Mask)
	targets, err := telemetry.Resolve(w, s, dir, os.Environ())
	if err != nil {
		return err
	}
	outcomes, failed := []telemetry.Outcome{}, false
	err = send(targets, func(out telemetry.Outcome) {
		outcomes = append(outcomes, out)
		end := "delivered"
		if out.Error != "" {
			failed, end = true, "not delivered: "+out.Error
		}
		if con.format != term.JSON {
			_, _ = fmt.Fprintf(con.out, "%s  %s  %s\n", out.ID, term.Visible(out.Receiver), term.Visible(end))
		}
	})
	switch {
	case err != nil:
		return err
	case con.format == term.JSON:
		err = con.printJSON(outcomes)
	case len(outcomes) == 0:
		_, err = fmt.Fprintln(con.out, "all notifications of the job were delivered")
	}
	if err == nil && failed {
		err = status(exitFailed)
	}
	return err
}

// anyChanged reports whether one of these flags was given.
func anyChanged(cmd *cobra.Command, names ...string) bool {
	return slices.ContainsFunc(names, cmd.Flags().Changed)
}
