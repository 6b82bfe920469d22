package cli

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"prodigy/internal/check"
)

// otherWords are words that people type from habit, and the commands that they mean. Help does not show them.
var otherWords = map[string][]string{
	"ps":    {"jobs"},
	"ls":    {"jobs"},
	"list":  {"jobs"},
	"show":  {"status"},
	"watch": {"status", "--watch"},
	"tail":  {"logs", "--follow"},
	"lint":  {"validate"},
	"check": {"validate"},
	"log":   {"logs"},
	"retry": {"dlq", "retry"},
}

// meant returns a command line with the command that its first word means.
func meant(args []string) []string {
	at := slices.IndexFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") })
	if at < 0 || otherWords[args[at]] == nil {
		return args
	}
	return slices.Concat(args[:at], otherWords[args[at]], args[at+1:])
}

// removedCommands returns commands that prodigy does not have, by group, and what to do instead. Most are those of the
// older tool, which docs/migrating.md lists too.
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
			"kill":         "use prodigy stop, after which the job can be resumed, or prodigy cancel",
			"rm":           "use prodigy clean JOB",
			"delete":       "use prodigy clean JOB",
			"top":          "use prodigy status --watch",
			"start":        "use prodigy run WORKFLOW, or prodigy resume",
			"restart":      "use prodigy resume, or prodigy run WORKFLOW for a new job",
			"inspect":      "use prodigy status JOB, or prodigy dlq inspect ITEM",
			"attach":       "use prodigy status --watch",
			"wait":         "use prodigy status --watch",
			"history":      "use prodigy jobs",
			"abort":        "use prodigy cancel",
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

// anAge replaces flags of the older tool for what is old enough to delete.
const anAge = "use --older-than with a unit, such as --older-than 30d"

// removedFlags returns flags that commands do not have, each row with those that mean the same, and what to do instead.
// Those of map are flags of xargs and GNU parallel, all others of the older tool, which docs/migrating.md lists too.
func removedFlags() map[string]map[string]string {
	return map[string]map[string]string{
		"map": {
			"res files":                  "each job keeps the output of its commands: prodigy logs, prodigy logs ITEM",
			"resume":                     "use prodigy resume",
			"resume-failed retry-failed": "use prodigy dlq retry",
			"l X m s xargs max-chars":    "use --batch N (-n N), with {} for the items",
			"pipe pipepart": "items are arguments: split -l 1000 FILE part., then prodigy map --glob 'part.*' -- " +
				"'COMMAND < {}'",
			"i":                   "omit it: {} is replaced by default, or TEXT with -I TEXT",
			"E":                   "cut the input before: sed '/^END$/,$d'",
			"header csv":          "use prodigy map --json-file FILE.csv -- COMMAND '${item.NAME}'",
			"p interactive":       "use --dry-run to see the commands before they run",
			"v":                   "use --dry-run to see the commands before they run, and -t to print them as they do",
			"x exit":              "omit it: a command line that is too long is a failure",
			"filter":              "use --save FILE, and filter in the map of that workflow",
			"tagstring":           "use --tag",
			"load memfree noswap": "use --save FILE, and guards in the map of that workflow",
			"shuf":                "shuffle the items first: shuf FILE | prodigy map -- COMMAND",
			"nice":                "put nice before the command: prodigy map [flags] nice -n 10 COMMAND",
			"semaphore fg bg id":  "use --pool NAME:SLOTS, which all jobs of this machine share",
			"process-slot-var":    "use {%} for the number of the slot",
			"env":                 "omit it: commands have the environment of prodigy",
			"plus rpl":            "write a script: prodigy map -- 'x={}; echo \"${x%.*.*}\"'",
			"wd workdir":          "run prodigy in that directory",
			"S sshlogin sshloginfile slf transferfile basefile return cleanup trc": "use --fleet: prodigy worker " +
				"runs on each machine",
			"will-cite": "omit it",
		},
		"run": {
			"y yes":            "there is no prompt; omit it",
			"n max-iterations": "a workflow runs once; repeat the command, or its steps with foreach",
			"w worktree":       "use --workspace git",
			"resume":           "use prodigy resume",
			"fail-fast":        "use on_item_failure: stop in the workflow",
		},
		anyCommand: {
			"p path":    "run prodigy in that directory",
			"v verbose": "prodigy events follow shows every event",
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
			"max-events max-size": anAge,
			"archive-path":        "use --archive DIRECTORY",
			"all-jobs all-repos":  "use --all",
			"mapreduce":           "omit it",
		},
		"purge": {"older-than-days": anAge, "workflow-id": nameTheJob},
		"stats": {"group-by": "prodigy events stats counts by type; to count by other fields use prodigy " +
			"events ls --output csv", "workflow-id file": nameTheJob},
		"list":    {"workflow-id": nameTheJob},
		"inspect": {"workflow-id": nameTheJob},
		"analyze": {"workflow-id": nameTheJob},
		"export":  {"workflow-id file": nameTheJob},
		"retry":   {"workflow-id": nameTheJob},
	}
}

// insteadOfFlag returns what to do instead of a flag that a command does not have, or "".
func insteadOfFlag(command, flag string) string {
	for names, instead := range removedFlags()[command] {
		if slices.Contains(strings.Fields(names), flag) {
			return instead
		}
	}
	return ""
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
		name := unknown.GetSpecifiedName()
		if _, err := strconv.Atoi(name); err == nil && cmd.Name() == "scale" {
			return usagef("a negative number needs -- before it, as in prodigy scale -- -%s", name)
		}
		if instead := cmp.Or(insteadOfFlag(cmd.Name(), name), insteadOfFlag(anyCommand, name)); instead != "" {
			origin := "the older tool"
			if cmd.Name() == "map" {
				origin = "xargs or parallel"
			}
			return usagef("%w: a flag of %s: %s", err, origin, instead)
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
	name := unknown.GetSpecifiedName()
	switch {
	case unknown.GetSpecifiedShortnames() == "":
	case name == "P": // of xargs
		name = "parallel"
	default:
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
