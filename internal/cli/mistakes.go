package cli

import (
	"cmp"
	_ "embed"
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

// insteadTable has what to do instead of commands and flags that prodigy does not have, a line for each: the group of the
// commands, or the command with the flags, where "*" stands for all; their names, separated by spaces; and the text. Flags
// of map are those of xargs and GNU parallel. Most others are of the older tool, which docs/migrating.md lists too.
//
//go:embed instead.tsv
var insteadTable string

// allCommands stands in insteadTable for every command with flags.
const allCommands = "*"

// insteadOf returns what to do instead of a subcommand or flag that a command does not have, or "".
func insteadOf(command, name string) string {
	for line := range strings.Lines(insteadTable) {
		row := strings.Split(strings.TrimSpace(line), "\t")
		if row[0] == command && check.Among(row[1], name) {
			return row[2]
		}
	}
	return ""
}

// unknownCommand rejects arguments of a group and suggests what may have been meant.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if instead := insteadOf(cmd.Name(), args[0]); instead != "" {
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

// checkExclusive returns a usage error if flags are given that exclude each other. The error of cobra, which ends with
// "; [rate delay] were all set", is not a usage error.
func checkExclusive(cmd *cobra.Command, _ []string) error {
	err := cmd.ValidateFlagGroups()
	if err == nil {
		return nil
	}
	_, given, _ := strings.Cut(err.Error(), "; [")
	given, _, _ = strings.Cut(given, "]")
	return usagef("--%s cannot be used together", strings.ReplaceAll(given, " ", " and --"))
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
		if instead := cmp.Or(insteadOf(cmd.Name(), name), insteadOf(allCommands, name)); instead != "" {
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
