package cli

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"prodigy/internal/check"
)

// removedCommands returns commands of the older tool, by group, and what to do instead. docs/migrating.md lists them
// too.
func removedCommands() map[string]map[string]string {
	return map[string]map[string]string{
		"prodigy": {
			"resume-job": "use prodigy resume JOB",
			"sessions":   "prodigy jobs lists the jobs, prodigy status JOB shows one",
			"checkpoints": "prodigy resume JOB resumes a job, prodigy status JOB shows its progress, prodigy " +
				"clean removes old ones",
			"worktree": "prodigy status shows what was merged, git merge prodigy/<job> merges it, and " +
				"prodigy clean removes the rest",
			"cook": "use prodigy run WORKFLOW",
			"exec": "put the command in a step with retry_config and timeout, and use prodigy run WORKFLOW",
			"batch": "use prodigy map --glob PATTERN -j N --retry N -- COMMAND, or prodigy run WORKFLOW " +
				"--map PATTERN",
			"progress":     "use prodigy status JOB --watch",
			"analytics":    "prodigy report, prodigy results and prodigy events stats show the numbers of a job",
			"config":       "settings are in the workflow file, and agent.command in config.yml in PRODIGY_HOME",
			"init":         "no setup is needed: write a workflow file, and use prodigy run WORKFLOW",
			"migrate-yaml": "prodigy validate WORKFLOW shows what to change",
			"template":     "a workflow is one file; use parameters to vary it",
			"goal-seek":    "use validate with on_incomplete in a step, and prodigy run WORKFLOW",
		},
		"dlq": {
			"show":      "use prodigy dlq inspect ITEM",
			"view":      "prodigy dlq list JOB lists all, prodigy dlq inspect ITEM shows one",
			"reprocess": "use prodigy dlq retry JOB",
		},
		"events": {"show": "use prodigy events ls JOB"},
	}
}

// nameTheJob replaces flags of the older tool that named a job or its file.
const nameTheJob = "pass the job id, or a part of it, as the first argument"

// anyCommand is the key of flags that every command of the older tool had.
const anyCommand = ""

// removedFlags returns flags of the older tool, by command, and what to do instead. docs/migrating.md lists them too.
func removedFlags() map[string]map[string]string {
	return map[string]map[string]string{
		"run": {
			"y":              "there is no prompt; omit it",
			"yes":            "there is no prompt; omit it",
			"n":              "a workflow runs once; repeat the command, or its steps with foreach",
			"max-iterations": "a workflow runs once; repeat the command, or its steps with foreach",
			"w":              "use --workspace git",
			"worktree":       "use --workspace git",
			"resume":         "use prodigy resume",
			"fail-fast":      "use on_item_failure: stop in the workflow",
		},
		anyCommand: {
			"p":       "run prodigy in that directory",
			"path":    "run prodigy in that directory",
			"v":       "prodigy events follow shows every event",
			"verbose": "prodigy events follow shows every event",
		},
		"validate": {
			"format":  "workflows have a single format; omit it",
			"suggest": "suggestions are always printed; omit it",
		},
		"resume": {"from-checkpoint": "a job always resumes where it stopped; omit it"},
		"logs":   {"summary": "prodigy status and prodigy report show the totals of a job"},
		"events": {"job-id": "use prodigy events ls JOB"},
		"ls":     {"file": nameTheJob},
		"follow": {"file": nameTheJob},
		"search": {"file": nameTheJob, "fields": "all fields are searched; for a selection use --output jsonl " +
			"and jq"},
		"clean": {
			"max-events": "use --older-than with a unit, such as --older-than 30d", "max-size": "use --older-than with a unit, such as --older-than 30d",
			"archive-path": "use --archive DIRECTORY", "all-jobs": "use --all", "all-repos": "use --all", "mapreduce": "omit it",
		},
		"purge": {
			"older-than-days": "use --older-than with a unit, such as --older-than 30d",
			"workflow-id":     nameTheJob,
		},
		"stats": {"group-by": "prodigy events stats counts by type; to count by other fields use prodigy " +
			"events ls --output csv", "workflow-id": nameTheJob, "file": nameTheJob},
		"list":    {"workflow-id": nameTheJob},
		"inspect": {"workflow-id": nameTheJob},
		"analyze": {"workflow-id": nameTheJob},
		"export":  {"workflow-id": nameTheJob, "file": nameTheJob},
		"retry":   {"workflow-id": nameTheJob},
	}
}

// unknownCommand rejects arguments of a group and suggests what may have been meant.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if instead := removedCommands()[cmd.Name()][args[0]]; instead != "" {
		return usagef("unknown command %q: %s", args[0], instead)
	}
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return usagef("unknown command %q (did you mean %s?)", args[0], strings.Join(near, " or "))
	}
	if ext := filepath.Ext(args[0]); cmd.Parent() == nil && (ext == ".yml" || ext == ".yaml") {
		return usagef("unknown command %q (did you mean 'prodigy run %s'?)", args[0], args[0])
	}
	return usagef("unknown command %q", args[0])
}

// wrongFlag turns a flag error into a usage error that says what was probably meant, or what the flag takes.
func wrongFlag(cmd *cobra.Command, err error) error {
	// the flag is one of a command that there is not
	if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
		return unknownCommand(cmd, args)
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		removed, name := removedFlags(), unknown.GetSpecifiedName()
		if instead := cmp.Or(removed[cmd.Name()][name], removed[anyCommand][name]); instead != "" {
			return usagef("%w: a flag of the older tool: %s", err, instead)
		}
		return usagef("%w%s", err, nearFlag(cmd, unknown))
	}
	invalid, isValue := errors.AsType[*pflag.InvalidValueError](err)
	if _, misspelt := errors.AsType[*strconv.NumError](err); !isValue || !misspelt {
		return usagef("%w", err)
	}
	want := "an integer"
	switch invalid.GetFlag().Value.Type() {
	case "bool":
		want = "true or false"
	case "uint64":
		want = "a non-negative integer"
	}
	return usagef("invalid argument %q for %q flag: must be %s", invalid.GetValue(), "--"+invalid.GetFlag().Name, want)
}

// nearFlag suggests a long flag: one with a similar name, or one that ends with it, such as --max-parallel for
// --parallel.
func nearFlag(cmd *cobra.Command, unknown *pflag.NotExistError) string {
	name, ok := longName(unknown)
	if !ok {
		return ""
	}
	var known []string
	near := ""
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		switch {
		case f.Hidden:
		case strings.HasSuffix(f.Name, "-"+name):
			near = f.Name
		default:
			known = append(known, f.Name)
		}
	})
	if near = cmp.Or(near, check.Nearest(name, known)); near == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean --%s?)", near)
}

// longName returns the name of the flag. The only short one it knows is -P of xargs.
func longName(unknown *pflag.NotExistError) (name string, ok bool) {
	switch name := unknown.GetSpecifiedName(); {
	case unknown.GetSpecifiedShortnames() == "":
		return name, true
	case name == "P":
		return "parallel", true
	}
	return "", false
}
