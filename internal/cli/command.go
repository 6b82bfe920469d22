package cli

import (
	"context"
	"errors"
	"math"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"prodigy/internal/jobs"
)

// takes requires arguments with these names, and allows so many in all.
func takes(most int, names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return usagef("<%s> is required", names[len(args)])
		}
		if len(args) > most {
			return usagef("unexpected argument %q", args[most])
		}
		return nil
	}
}

// exactly requires these arguments, no fewer and no more.
func exactly(names ...string) cobra.PositionalArgs { return takes(len(names), names...) }

// atLeastOne requires one argument or more.
func atLeastOne(name string) cobra.PositionalArgs { return takes(math.MaxInt, name) }

// atMost allows n arguments.
func atMost(n int) cobra.PositionalArgs { return takes(n) }

// afterJob allows a job in front of exactly one argument.
func afterJob(argument string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > 0:
			return atMost(2)(cmd, args)
		case argument == "item":
			return usagef("<item> is required (to list items: prodigy results, or prodigy dlq list)")
		}
		return usagef("<%s> is required", argument)
	}
}

// addJobID adds the flags --job-id and --all to cmd.
func addJobID(cmd *cobra.Command) {
	cmd.Flags().String("job-id", "latest", "job id or part of it, workflow name, or latest")
	_ = cmd.RegisterFlagCompletionFunc("job-id", completeJobs)
	cmd.Flags().Bool("all", false, "latest is the newest job of all directories, not only of this project")
}

// jobNamed returns the job named in args, if there is one, or by the flags. It is an error if both name one.
func jobNamed(cmd *cobra.Command, args []string) (jobName, error) {
	name := jobByFlags(cmd)
	if len(args) == 0 {
		return name, nil
	}
	if cmd.Flags().Changed("job-id") && name.id != args[0] {
		return name, usagef("job given twice: %s and --job-id %s", args[0], name.id)
	}
	name.id = args[0]
	return name, nil
}

// findJobNamed finds that job.
func findJobNamed(cmd *cobra.Command, args []string) (jobs.Job, error) {
	name, err := jobNamed(cmd, args)
	if err != nil {
		return jobs.Job{}, err
	}
	return findJob(name)
}

// A jobCommand does what a command does with a job.
type jobCommand func(ctx context.Context, con *console, job jobs.Job) error

// An argumentCommand is a jobCommand with one more argument, such as an item.
type argumentCommand func(ctx context.Context, con *console, job jobs.Job, argument string) error

// onArgs completes a command that is about no job, or finds it itself.
func onArgs(con *console, cmd *cobra.Command,
	run func(ctx context.Context, con *console, args []string) error,
) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), con, args) }
	return cmd
}

// onJob completes a command about one job, which its argument or the flags name.
func onJob(con *console, cmd *cobra.Command, run jobCommand) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = atMost(1), completeJob
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		job, err := findJobNamed(cmd, args)
		if err != nil {
			return err
		}
		return run(cmd.Context(), con, job)
	}
	addJobID(cmd)
	return cmd
}

// onJobAnd completes a command about one job that has another argument behind it.
func onJobAnd(con *console, argument string, cmd *cobra.Command, run argumentCommand) *cobra.Command {
	cmd.Args = afterJob(argument)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		last := len(args) - 1
		job, err := findJobNamed(cmd, args[:last])
		if err != nil {
			return err
		}
		return run(cmd.Context(), con, job, args[last])
	}
	addJobID(cmd)
	return cmd
}

// onItem completes a command about one item, behind its job or in front of it. A name that no item has is passed on.
func onItem(con *console, cmd *cobra.Command, run argumentCommand) *cobra.Command {
	cmd.Args = afterJob("item")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		job, item, err := findJobAndItem(cmd, args)
		switch {
		case err != nil:
			return err
		case item == "":
			return usagef("<item> is required: %s is a job", args[0])
		}
		if item, _, err = labelsOf(job).find(item); err != nil {
			return err
		}
		return run(cmd.Context(), con, job, item)
	}
	addJobID(cmd)
	return cmd
}

// onItems completes a command about items, if any are named, as arguments or in a file. The job is the first or the
// last argument.
func onItems(con *console, cmd *cobra.Command,
	run func(ctx context.Context, con *console, job jobs.Job, items []string) error,
) *cobra.Command {
	var file string
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		job, items := jobAmong(cmd, args)
		found, err := findJobNamed(cmd, job)
		if err != nil {
			return err
		}
		if file != "" {
			text, err := os.ReadFile(file)
			if err != nil {
				return refusef("--arg-file: %w", err)
			}
			for line := range strings.Lines(string(text)) {
				if name := strings.TrimSpace(line); name != "" {
					items = append(items, name)
				}
			}
			if len(items) == 0 { // and not all
				return refusef("--arg-file %s has no items", file)
			}
		}
		return run(cmd.Context(), con, found, items)
	}
	addFlag(cmd, &file, "arg-file", "also the items in this `file`, one per line")
	addJobID(cmd)
	return cmd
}

// jobAmong returns the job among arguments, as a list of one, if the first or the last of them is one, and the items.
func jobAmong(cmd *cobra.Command, args []string) (job, items []string) {
	name, last := jobByFlags(cmd), len(args)-1
	switch {
	case len(args) > 0 && isJob(args[0], name):
		return args[:1], args[1:]
	case last > 0 && isJob(args[last], name):
		return args[last:], args[:last]
	}
	return nil, args
}

// onJobOrItem completes a command about a job, or one item of it: either of them is an argument, or both in either
// order. Without an item its id is empty.
func onJobOrItem(con *console, cmd *cobra.Command, run argumentCommand) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = atMost(2), completeWhy
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		job, item, err := findJobAndItem(cmd, args)
		if err == nil && item != "" {
			asked, found := item, false
			item, found, err = labelsOf(job).find(asked)
			switch {
			case err != nil || found:
			case len(args) == 1:
				err = refusef("no job or item named %q (latest job: %s)", asked, job.ID)
			default:
				err = noItem(job, asked)
			}
		}
		if err != nil {
			return err
		}
		return run(cmd.Context(), con, job, item)
	}
	addJobID(cmd)
	return cmd
}

// findJobAndItem returns the job that up to two arguments in any order name, and the other one, or "" if there is none.
func findJobAndItem(cmd *cobra.Command, args []string) (job jobs.Job, item string, err error) {
	named, items := jobAmong(cmd, args)
	if len(items) > 1 { // neither of them is a job
		named, items = args[:1], args[1:]
	}
	job, err = findJobNamed(cmd, named)
	return job, strings.Join(items, ""), err
}

// isJob reports whether an argument that may name an item names a job: it is latest, the id of a job, or the beginning
// of one and no item of the job that is meant without it.
func isJob(arg string, name jobName) bool {
	if arg == "latest" {
		return true
	}
	home, err := homeOf(name.all)
	if err != nil {
		return false
	}
	named, err := home.Find(arg)
	if err != nil && !errors.Is(err, jobs.ErrAmbiguous) {
		return false
	}
	if err == nil && named.ID == arg {
		return true
	}
	meant, err := findJob(name)
	if err != nil {
		return true
	}
	_, found, err := labelsOf(meant).find(arg)
	return err == nil && !found
}

// newGroup returns a command that only has subcommands. On its own it prints its help.
func newGroup(use, short string) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args:  unknownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
}

// noItem returns the error for an unknown item; for a job without items it names the command to use instead.
func noItem(job jobs.Job, itemID string) error {
	if _, err := os.Stat(job.ItemsFile()); err != nil {
		return refusef("job %s has no items; 'prodigy status%s' shows its steps", job.ID, named(job.ID))
	}
	return refusef("job %s has no item %q", job.ID, itemID)
}
