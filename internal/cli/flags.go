package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/mapreduce"
	"prodigy/internal/process"
	"prodigy/internal/spend"
	"prodigy/internal/term"
)

// addFormat adds --output with these formats besides human, and --json as its short form.
func addFormat(cmd *cobra.Command, f *term.Format, others ...term.Format) {
	*f = term.Human
	names := []string{string(term.Human)}
	for _, o := range others {
		names = append(names, string(o))
	}
	addChoice(cmd, (*string)(f), "output", "output format", names...)
	flag := cmd.Flags().VarPF(jsonFlag{f}, "json", "", "same as --output json")
	flag.NoOptDefVal = "true"
}

// jsonFlag is --json. It follows pflag.Value, as the types below do.
type jsonFlag struct{ format *term.Format }

func (j jsonFlag) String() string { return "" }
func (j jsonFlag) Type() string   { return "bool" }

func (j jsonFlag) Set(s string) error {
	on, err := strconv.ParseBool(s)
	if err == nil && on {
		*j.format = term.JSON
	}
	return err
}

// addChoice adds a flag that takes one of these words.
func addChoice(cmd *cobra.Command, value *string, name, usage string, words ...string) {
	cmd.Flags().Var(choice{value, words}, name, usage+": "+strings.Join(words, ", "))
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

type choice struct {
	value *string
	words []string
}

func (c choice) String() string { return *c.value }
func (c choice) Type() string   { return "word" }

func (c choice) Set(s string) error {
	if !slices.Contains(c.words, s) {
		return fmt.Errorf("must be one of %s", strings.Join(c.words, ", "))
	}
	*c.value = s
	return nil
}

// repeated is a flag that may be given more than once; each adds one value unchanged. The list flags of pflag would make a CSV writer to
// print their default.
type repeated struct{ values *[]string }

func (s repeated) String() string { return strings.Join(*s.values, " ") }
func (s repeated) Type() string   { return "stringArray" }

func (s repeated) Set(value string) error {
	*s.values = append(*s.values, value)
	return nil
}

// durationFlag is a flag that takes a duration as workflow files write it.
type durationFlag struct{ value *time.Duration }

func (l durationFlag) String() string {
	if *l.value == 0 {
		return ""
	}
	return duration.Format(*l.value)
}

func (l durationFlag) Type() string { return "duration" }

func (l durationFlag) Set(s string) error {
	d, err := duration.Parse(s)
	if err != nil {
		return err
	}
	*l.value = d
	return nil
}

// positive is a flag that takes a whole number of at least 1.
type positive struct{ value *int }

func (p positive) String() string {
	if *p.value == 0 {
		return ""
	}
	return strconv.Itoa(*p.value)
}

func (p positive) Type() string { return "number" }

func (p positive) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return fmt.Errorf("must be a whole number, at least 1")
	}
	*p.value = n
	return nil
}

// parallelFlag is the flag for the number of slots. It rejects more than the process can handle.
type parallelFlag struct{ positive }

func (a parallelFlag) Set(s string) error {
	if err := a.positive.Set(s); err != nil {
		return err
	}
	return process.CapacityNow().Check(*a.value)
}

// addMaxParallel adds the flag --max-parallel to cmd.
func addMaxParallel(cmd *cobra.Command, n *int) {
	cmd.Flags().VarP(parallelFlag{positive{n}}, "max-parallel", "j", "how many agents run at once")
}

// dollars is a flag that takes an amount of US dollars.
type dollars struct{ value *spend.USD }

func (d dollars) String() string {
	if *d.value == 0 {
		return ""
	}
	return d.value.Decimal()
}

func (d dollars) Type() string { return "dollars" }

func (d dollars) Set(s string) error {
	u, err := spend.ParseUSD(s)
	if err != nil {
		return err
	}
	*d.value = u
	return nil
}

// addMaxCost adds the flag --max-cost to cmd.
func addMaxCost(cmd *cobra.Command, u *spend.USD) {
	cmd.Flags().Var(dollars{u}, "max-cost", "US dollars that AI agents may cost in all; when they are spent, the job stops and can be resumed with more")
}

// poolFlag is a flag that takes a pool and its slots.
type poolFlag struct{ value *jobs.Pool }

func (p poolFlag) String() string {
	if p.value.Name == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", p.value.Name, p.value.Slots)
}

func (p poolFlag) Type() string { return "pool" }

func (p poolFlag) Set(s string) (err error) {
	if s == mapreduce.NoPool {
		*p.value = jobs.Pool{Name: s}
		return nil
	}
	p.value.Name, p.value.Slots, err = limit.ParseSharedPool(s)
	return err
}

// addMaxDelay adds the flag --max-delay to cmd.
func addMaxDelay(cmd *cobra.Command, d *time.Duration) {
	cmd.Flags().Var(durationFlag{d}, "max-delay", "upper limit for delays that set none of their own (also: PRODIGY_MAX_DELAY)")
}

// wrongFlag turns a flag error into a usage error that says what was probably meant, or what the flag takes.
func wrongFlag(cmd *cobra.Command, err error) error {
	if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 { // the flag is one of a command that there is not
		return unknownCommand(cmd, args)
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		removed, name := removedFlags(), unknown.GetSpecifiedName()
		if instead := cmp.Or(removed[cmd.Name()][name], removed[anyCommand][name]); instead != "" {
			return usagef("%w: a flag of the older tool: %s", err, instead)
		}
		return usagef("%w%s", err, nearFlag(cmd, unknown))
	}
	value, isValue := errors.AsType[*pflag.InvalidValueError](err)
	if _, misspelt := errors.AsType[*strconv.NumError](err); !isValue || !misspelt {
		return usagef("%w", err)
	}
	want := "a whole number"
	switch value.GetFlag().Value.Type() {
	case "bool":
		want = "true or false"
	case "uint64":
		want = "a whole number from 0"
	}
	return usagef("invalid argument %q for %q flag: must be %s", value.GetValue(), "--"+value.GetFlag().Name, want)
}

const nameTheJob = "name the job, by its id or a prefix of it, as the first argument"

// anyCommand is the key of flags that every command of the older tool had.
const anyCommand = ""

// removedFlags returns flags of the older tool, by command, and what to do instead. docs/migrating.md lists them too.
func removedFlags() map[string]map[string]string {
	return map[string]map[string]string{
		"run": {
			"y":              "nothing is asked, so leave it out",
			"yes":            "nothing is asked, so leave it out",
			"n":              "a workflow runs once; repeat the command, or its steps with foreach",
			"max-iterations": "a workflow runs once; repeat the command, or its steps with foreach",
			"w":              "write --workspace git",
			"worktree":       "write --workspace git",
			"resume":         "prodigy resume continues a job",
			"fail-fast":      "write on_item_failure: stop in the workflow",
		},
		anyCommand: {
			"p":       "start prodigy in that directory",
			"path":    "start prodigy in that directory",
			"v":       "prodigy events follow shows every event",
			"verbose": "prodigy events follow shows every event",
		},
		"validate": {"format": "a workflow has one format, so leave it out", "suggest": "it always says what to write, so leave it out"},
		"resume":   {"from-checkpoint": "a job goes on where it stopped, so leave it out"},
		"logs":     {"summary": "prodigy status and prodigy report have the sums of a job"},
		"events":   {"job-id": "write prodigy events ls JOB"},
		"ls":       {"file": nameTheJob},
		"follow":   {"file": nameTheJob},
		"search":   {"file": nameTheJob, "fields": "all fields are searched; --output jsonl has them for jq"},
		"clean": {
			"max-events": "write --older-than with a unit, as in --older-than 30d", "max-size": "write --older-than with a unit, as in --older-than 30d",
			"archive-path": "--archive takes the directory", "all-jobs": "write --all", "all-repos": "write --all", "mapreduce": "leave it out",
		},
		"purge":   {"older-than-days": "write --older-than with a unit, as in --older-than 30d", "workflow-id": nameTheJob},
		"stats":   {"group-by": "prodigy events stats counts by type, and prodigy events ls --output csv has all fields to count by", "workflow-id": nameTheJob, "file": nameTheJob},
		"list":    {"workflow-id": nameTheJob},
		"inspect": {"workflow-id": nameTheJob},
		"analyze": {"workflow-id": nameTheJob},
		"export":  {"workflow-id": nameTheJob, "file": nameTheJob},
		"retry":   {"workflow-id": nameTheJob},
	}
}

// nearFlag suggests a long flag: one with a similar name, or one that ends with it, such as --max-parallel for --parallel.
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
