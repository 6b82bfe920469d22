package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"prodigy/internal/jobs"
	"prodigy/internal/term"
)

// firstLevel is the table of the top-level commands.
var firstLevel = []struct {
	name string
	make func(*console) *cobra.Command
}{
	{"run", newRunCommand},
	{"map", newMapCommand},
	{"resume", newResumeCommand},
	{"stop", newStopCommand},
	{"pause", newPauseCommand},
	{"continue", newContinueCommand},
	{"drain", newDrainCommand},
	{"cancel", newCancelCommand},
	{"scale", newScaleCommand},
	{"skip", newSkipCommand},
	{"retry-now", newRetryNowCommand},
	{"validate", newValidateCommand},
	{"plan", newPlanCommand},
	{"simulate", newSimulateCommand},
	{"test", newTestCommand},
	{"schema", newSchemaCommand},
	{"dlq", newDLQCommand},
	{"events", newEventsCommand},
	{"jobs", newJobsCommand},
	{"status", newStatusCommand},
	{"why", newWhyCommand},
	{"classify", newClassifyCommand},
	{"logs", newLogsCommand},
	{"results", newResultsCommand},
	{"diff", newDiffCommand},
	{"agents", newAgentsCommand},
	{"notify", newNotifyCommand},
	{"otel", newOTelCommand},
	{"fsck", newFsckCommand},
	{"report", newReportCommand},
	{"ui", newUICommand},
	{"clean", newCleanCommand},
	{"worker", newWorkerCommand},
	{"broker", newBrokerCommand},
	{"fleet", newFleetCommand},
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
			return runVersion(con, term.Human)
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

// removedCommands returns commands of the older tool, by group, and what to do instead. docs/migrating.md lists them too.
func removedCommands() map[string]map[string]string {
	return map[string]map[string]string{
		"prodigy": {
			"resume-job":   "write prodigy resume JOB",
			"sessions":     "prodigy jobs lists the jobs, prodigy status JOB shows one",
			"checkpoints":  "prodigy resume JOB continues a job, prodigy status JOB shows where it is, prodigy clean removes old ones",
			"worktree":     "prodigy status shows what was merged, git merge prodigy/<job> takes it, and prodigy clean removes what is left",
			"cook":         "write prodigy run WORKFLOW",
			"exec":         "write the command as a step with retry_config and timeout, and prodigy run WORKFLOW",
			"batch":        "write prodigy map --glob PATTERN -j N --retry N -- COMMAND, or prodigy run WORKFLOW --map PATTERN",
			"progress":     "write prodigy status JOB --watch",
			"analytics":    "prodigy report, prodigy results and prodigy events stats have the numbers of a job",
			"config":       "settings stand in the workflow file, and agent.command in config.yml below PRODIGY_HOME",
			"init":         "nothing has to be set up: write a workflow file, and prodigy run WORKFLOW",
			"migrate-yaml": "prodigy validate WORKFLOW says what to write differently",
			"template":     "a workflow is one file, which parameters vary",
			"goal-seek":    "write validate with on_incomplete in a step, and prodigy run WORKFLOW",
		},
		"dlq": {
			"show":      "write prodigy dlq inspect ITEM",
			"view":      "prodigy dlq list JOB has all, prodigy dlq inspect ITEM shows one",
			"reprocess": "write prodigy dlq retry JOB",
		},
		"events": {"show": "write prodigy events ls JOB"},
	}
}

// unknownCommand rejects arguments of a group and suggests what may have been meant.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if instead := removedCommands()[cmd.Name()][args[0]]; instead != "" {
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

// afterJob allows a job in front of exactly one argument.
func afterJob(argument string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			return usagef("the argument <%s> is missing", argument)
		case 1, 2:
			return nil
		}
		return usagef("unexpected argument %q", args[2])
	}
}

// atMostTwo allows two arguments.
func atMostTwo(_ *cobra.Command, args []string) error {
	if len(args) > 2 {
		return usagef("unexpected argument %q", args[2])
	}
	return nil
}

// atMostOne allows one argument.
func atMostOne(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("unexpected argument %q", args[1])
	}
	return nil
}

// jobName is how the user named a job.
type jobName struct {
	id  string // its id, a prefix of it, or latest
	all bool   // latest is that of all projects
}

// homeOf returns the home of all jobs, limited to those of the project of the current directory unless all is set.
func homeOf(all bool) (jobs.Home, error) {
	home, err := jobs.FromEnv()
	if err != nil || all {
		return home, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return jobs.Home{}, err
	}
	home.Project = jobs.Project(dir)
	return home, nil
}

// findJob returns the job that was named.
func findJob(name jobName) (jobs.Job, error) {
	home, err := homeOf(name.all)
	if err != nil {
		return jobs.Job{}, err
	}
	job, err := home.Find(name.id)
	if name.id == "latest" && errors.Is(err, jobs.ErrNotFound) {
		return jobs.Job{}, noJobs(home)
	}
	return job, err
}

// noJobs returns the error that there is no latest job, with the one of another project if there is one.
func noJobs(home jobs.Home) error {
	project := home.Project
	home.Project = ""
	newest, err := home.Find("latest")
	if err != nil {
		return refusef("there are no jobs yet in %s", home.Root)
	}
	meta, err := newest.ReadMeta()
	if err != nil {
		return refusef("there are no jobs of %s yet; the newest of all is %s (--all takes it)", project, newest.ID)
	}
	return refusef("there are no jobs of %s yet; the newest of all is %s, of %s (--all takes it)", project, newest.ID, meta.Dir)
}

// addJobID adds the flags --job-id and --all to cmd.
func addJobID(cmd *cobra.Command, name *jobName) {
	cmd.Flags().StringVar(&name.id, "job-id", "latest", "the job: its id, a prefix of it, or latest")
	_ = cmd.RegisterFlagCompletionFunc("job-id", completeJobs)
	cmd.Flags().BoolVar(&name.all, "all", false, "latest is the newest job of all directories, not only of this project")
}

// nameJob sets name to the job named in args, if there is one. It is an error if --job-id names another.
func nameJob(cmd *cobra.Command, name *jobName, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.Flags().Changed("job-id") && name.id != args[0] {
		return usagef("the job is named twice: %s, and --job-id %s", args[0], name.id)
	}
	name.id = args[0]
	return nil
}

// nameJobBefore returns the last of one or two arguments, and sets name to the job in front of it, if there is one.
func nameJobBefore(cmd *cobra.Command, name *jobName, args []string) (string, error) {
	last := len(args) - 1
	return args[last], nameJob(cmd, name, args[:last])
}

// nameJobAndItem returns the item among one or two arguments, and sets name to the job, if one is named. They may come in either order.
func nameJobAndItem(cmd *cobra.Command, name *jobName, args []string) (string, error) {
	switch {
	case len(args) == 2 && isJob(args[1], *name) && !isJob(args[0], *name):
		args[0], args[1] = args[1], args[0]
	case len(args) == 1 && isJob(args[0], *name):
		return "", usagef("the argument <item> is missing: %s is a job", args[0])
	}
	return nameJobBefore(cmd, name, args)
}

// nameJobAndItems returns the items among the arguments, and sets name to the job, if the first or the last is one.
func nameJobAndItems(cmd *cobra.Command, name *jobName, args []string) ([]string, error) {
	last := len(args) - 1
	switch {
	case len(args) > 0 && isJob(args[0], *name):
		return args[1:], nameJob(cmd, name, args[:1])
	case last > 0 && isJob(args[last], *name):
		return args[:last], nameJob(cmd, name, args[last:])
	}
	return args, nil
}

// findJobAndItem returns the job and the item that are named by none, one or two arguments: either of them, or both in either order. Without an item
// its id is empty.
func findJobAndItem(cmd *cobra.Command, name *jobName, args []string) (job jobs.Job, itemID string, err error) {
	named, err := nameJobAndItems(cmd, name, args)
	if len(args) == 2 {
		named = make([]string, 1)
		named[0], err = nameJobAndItem(cmd, name, args)
	}
	if err != nil {
		return jobs.Job{}, "", err
	}
	job, err = findJob(*name)
	if err != nil || len(named) == 0 {
		return job, "", err
	}
	itemID, found, err := labelsOf(job).find(named[0])
	if err == nil && !found {
		itemID = named[0]
		err = noItem(job, itemID)
		if len(args) == 1 {
			err = refusef("there is no job %q, and no such item in job %s", itemID, job.ID)
		}
	}
	return job, itemID, err
}

// isJob reports whether an argument that may name an item names a job: it is latest, the id of a job, or the beginning of one and no item
// of the job that is meant without it.
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
