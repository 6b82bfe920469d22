package main

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"prodigy/internal/jobs"
)

// firstLevel is the table of the top-level commands.
var firstLevel = []struct {
	name string
	make func(*console) *cobra.Command
}{
	{"run", newRunCommand},
	{"resume", newResumeCommand},
	{"validate", newValidateCommand},
	{"plan", newPlanCommand},
	{"schema", newSchemaCommand},
	{"dlq", newDLQCommand},
	{"events", newEventsCommand},
	{"jobs", newJobsCommand},
	{"status", newStatusCommand},
	{"why", newWhyCommand},
	{"logs", newLogsCommand},
	{"results", newResultsCommand},
	{"fsck", newFsckCommand},
	{"report", newReportCommand},
	{"ui", newUICommand},
	{"clean", newCleanCommand},
	{"version", newVersionCommand},
	{endLeftoversName, newEndLeftoversCommand},
}

// newRootCommand returns the whole command tree.
func newRootCommand(con *console) *cobra.Command {
	root := newBareRoot(con)
	for _, c := range firstLevel {
		root.AddCommand(c.make(con))
	}
	addVersionFlag(con, root)
	root.InitDefaultCompletionCmd("completion")
	completion, _, _ := root.Find([]string{"completion"})
	completion.Args, completion.RunE = unknownCommand, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	offerNoFiles(root)
	return root
}

// addVersionFlag adds --version to prodigy itself.
func addVersionFlag(con *console, root *cobra.Command) {
	asked := root.Flags().Bool("version", false, "print the version")
	help := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *asked {
			return runVersion(con, asHuman)
		}
		return help(cmd, args)
	}
}

// newRootCommandFor returns a tree with only the command that args begin with, or the whole tree if they begin with no command.
// Building all commands and flags is a good part of the cost of a short command.
func newRootCommandFor(con *console, args []string) *cobra.Command {
	for _, c := range firstLevel {
		if len(args) > 0 && args[0] == c.name {
			root := newBareRoot(con)
			root.CompletionOptions.DisableDefaultCmd = true
			root.AddCommand(c.make(con))
			return root
		}
	}
	return newRootCommand(con)
}

// newBareRoot returns the root command without subcommands.
func newBareRoot(con *console) *cobra.Command {
	root := newGroup("prodigy", "Run commands over a list of items, with retries, a dead letter queue and resume")
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.SetOut(con.text())
	root.SetErr(con.err)
	root.SetFlagErrorFunc(wrongFlag)
	root.PersistentFlags().BoolVar(&con.noColor, "no-color", con.noColor, "do not colour the output (also: NO_COLOR)")
	return root
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

// removedCommands holds commands of the older tool, by group, and what to do instead. docs/migrating.md lists them too.
var removedCommands = map[string]map[string]string{
	"prodigy": {
		"resume-job":  "write prodigy resume JOB",
		"sessions":    "prodigy jobs lists the jobs, prodigy status JOB shows one",
		"checkpoints": "prodigy resume JOB continues a job, prodigy status JOB shows where it is, prodigy clean removes old ones",
		"worktree":    "the commands run in this directory, so there are no worktrees to list, merge or clean",
		"cook":        "write prodigy run WORKFLOW",
		"exec":        "write the command as a step, and prodigy run WORKFLOW",
		"batch":       "write prodigy run WORKFLOW --map PATTERN, or a map with input: {glob: PATTERN}",
		"progress":    "write prodigy status JOB --watch",
	},
	"dlq": {
		"show":      "write prodigy dlq inspect ITEM",
		"reprocess": "write prodigy dlq retry JOB",
	},
}

// unknownCommand rejects arguments of a group and suggests what may have been meant.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if instead := removedCommands[cmd.Name()][args[0]]; instead != "" {
		return usagef("there is no command %q any more: %s", args[0], instead)
	}
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return usagef("there is no command %q (did you mean %s?)", args[0], strings.Join(near, " or "))
	}
	if ext := filepath.Ext(args[0]); cmd.Parent() == nil && (ext == ".yml" || ext == ".yaml") {
		return usagef("there is no command %q (did you mean 'prodigy run %s'?)", args[0], args[0])
	}
	return usagef("there is no command %q", args[0])
}

// exactly requires these arguments, no fewer and no more.
func exactly(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return usagef("the argument <%s> is missing", names[len(args)])
		}
		if len(args) > len(names) {
			return usagef("unexpected argument %q", args[len(names)])
		}
		return nil
	}
}

// atLeastOne requires one argument or more.
func atLeastOne(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("the argument <%s> is missing", name)
		}
		return nil
	}
}

// atMostOne allows one argument.
func atMostOne(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("unexpected argument %q", args[1])
	}
	return nil
}

// findJob returns the job that is called id: its id, a prefix of it, or latest.
func findJob(id string) (jobs.Job, error) {
	home, err := jobs.FromEnv()
	if err != nil {
		return jobs.Job{}, err
	}
	job, err := home.Find(id)
	if id == "latest" && errors.Is(err, jobs.ErrNotFound) {
		return jobs.Job{}, refusef("there are no jobs yet in %s", home.Root)
	}
	return job, err
}

// addJobID adds the flag --job-id to cmd.
func addJobID(cmd *cobra.Command, id *string) {
	cmd.Flags().StringVar(id, "job-id", "latest", "the job: its id, a prefix of it, or latest")
	_ = cmd.RegisterFlagCompletionFunc("job-id", completeJobs)
}

// nameJob sets id to the job named in args, if there is one. It is an error if --job-id names another.
func nameJob(cmd *cobra.Command, id *string, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.Flags().Changed("job-id") && *id != args[0] {
		return usagef("the job is named twice: %s, and --job-id %s", args[0], *id)
	}
	*id = args[0]
	return nil
}
