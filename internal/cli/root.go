package cli

import (
	"github.com/spf13/cobra"
)

// firstLevel is the table of the top-level commands, in the order of the help.
var firstLevel = []struct {
	name, group string
	make        func(*console) *cobra.Command
}{
	{"run", groupRun, newRunCommand},
	{"map", groupRun, newMapCommand},
	{"resume", groupRun, newResumeCommand},
	{"plan", groupRun, newPlanCommand},
	{"validate", groupRun, newValidateCommand},

	{"status", groupLook, newStatusCommand},
	{"logs", groupLook, newLogsCommand},
	{"why", groupLook, newWhyCommand},
	{"results", groupLook, newResultsCommand},
	{"report", groupLook, newReportCommand},
	{"ui", groupLook, newUICommand},
	{"jobs", groupLook, newJobsCommand},
	{"diff", groupLook, newDiffCommand},

	{"dlq", groupFix, newDLQCommand},

	{"pause", groupSteer, newPauseCommand},
	{"continue", groupSteer, newContinueCommand},
	{"scale", groupSteer, newScaleCommand},
	{"skip", groupSteer, newSkipCommand},
	{"retry-now", groupSteer, newRetryNowCommand},
	{"drain", groupSteer, newDrainCommand},
	{"stop", groupSteer, newStopCommand},
	{"cancel", groupSteer, newCancelCommand},

	{"demo", groupTry, newDemoCommand},
	{"simulate", groupTry, newSimulateCommand},
	{"test", groupTry, newTestCommand},

	{"fleet", groupFleet, newFleetCommand},
	{"broker", groupFleet, newBrokerCommand},
	{"worker", groupFleet, newWorkerCommand},

	{"events", groupAdmin, newEventsCommand},
	{"clean", groupAdmin, newCleanCommand},
	{"fsck", groupAdmin, newFsckCommand},
	{"notify", groupAdmin, newNotifyCommand},
	{"otel", groupAdmin, newOTelCommand},
	{"agents", groupAdmin, newAgentsCommand},
	{"classify", groupAdmin, newClassifyCommand},
	{"schema", groupAdmin, newSchemaCommand},
	{"version", groupAdmin, newVersionCommand},
	{endLeftoversName, "", newEndLeftoversCommand},
}

// newRootCommand returns the whole command tree.
func newRootCommand(con *console) *cobra.Command {
	root := newBareRoot(con)
	for i := range firstLevel {
		addFirstLevel(con, root, i)
	}
	root.SetCompletionCommandGroupID(groupAdmin)
	version := root.Flags().Bool("version", false, "print the version")
	help := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *version {
			return runVersion(con)
		}
		return help(cmd, args)
	}
	root.InitDefaultCompletionCmd("completion")
	completion, _, _ := root.Find([]string{"completion"})
	completion.Args, completion.RunE = unknownCommand, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	root.SetHelpCommandGroupID(groupAdmin)
	root.InitDefaultHelpCmd()
	helpCommand, _, _ := root.Find([]string{"help"})
	helpCommand.Run, helpCommand.RunE = nil, runHelp
	return root
}

// runHelp prints the help of the command that args name.
func runHelp(cmd *cobra.Command, args []string) error {
	about, rest, err := cmd.Root().Find(meant(args))
	if err == nil {
		err = unknownCommand(about, rest)
	}
	if err != nil {
		return err
	}
	about.InitDefaultHelpFlag()
	return about.Help()
}

// addFirstLevel adds a row of the table to the root command.
func addFirstLevel(con *console, root *cobra.Command, row int) {
	c := firstLevel[row]
	cmd := c.make(con)
	cmd.GroupID = c.group
	if c.group != "" && !root.ContainsGroup(c.group) {
		root.AddGroup(&cobra.Group{ID: c.group, Title: c.group})
	}
	root.AddCommand(cmd)
}

// newRootCommandFor returns a tree with only the command that args begin with, or the whole tree if they begin with no
// command. Building all commands and flags is a good part of the cost of a short command.
func newRootCommandFor(con *console, args []string) *cobra.Command {
	for i, c := range firstLevel {
		if len(args) > 0 && args[0] == c.name {
			root := newBareRoot(con)
			root.CompletionOptions.DisableDefaultCmd = true
			addFirstLevel(con, root, i)
			return root
		}
	}
	return newRootCommand(con)
}

// newBareRoot returns the root command without subcommands.
func newBareRoot(con *console) *cobra.Command {
	cobra.EnableCommandSorting = false
	root := newGroup("prodigy", "Run commands over a list of items, with retries, a dead letter queue and resume")
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.SetOut(con.text())
	root.SetErr(con.err)
	root.SetFlagErrorFunc(wrongFlag)
	root.PersistentPreRunE = checkExclusive
	arrangeHelp(root)
	root.PersistentFlags().BoolVar(&con.noColor, "no-color", con.noColor, "disable colors (env: NO_COLOR)")
	return root
}
