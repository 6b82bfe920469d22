package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
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
	"prodigy/internal/retry"
	"prodigy/internal/term"
)

// The groups of commands in the help.
const (
	groupRun   = "Run"
	groupLook  = "Look"
	groupFix   = "Fix"
	groupSteer = "Steer"
	groupTry   = "Try"
	groupFleet = "Fleet"
	groupAdmin = "Admin"
)

// flagGroup is a group of flags in the help.
type flagGroup struct {
	Title string
	// names has the names of the flags, separated by spaces.
	names string
	// flags are those that a command has. It is nil in the table.
	flags *pflag.FlagSet
}

// Usages returns a line for each flag, as wide as the terminal.
func (g flagGroup) Usages() string {
	width, _ := term.Size(os.Stdout)
	return g.flags.FlagUsagesWrapped(width)
}

// flagGroups are the groups in the help of commands that have many flags. A flag of no group comes first.
var flagGroups = []flagGroup{
	{Title: "Items", names: `arg-file args batch canary check-outputs cluster colsep delimiter filter glob item items
		json-file link map max-lines max-replace-args no-run-if-empty null only param param-file
		profile replace rerun since type where with`},
	{Title: "Outcomes", names: "at conflict-rate cost failure-rate latency like max-time outcomes tokens"},
	{Title: "Parallelism and retries", names: `backoff delay max-crashes max-delay max-parallel max-procs
		max-retries on-failure pool rate retry retry-on seed timeout wait wait-timeout`},
	{Title: "Output", names: `bar durability group joblog json keep keep-order line-buffer log-steps output print
		quiet results tag ungroup verbose`},
	{Title: "Stopping", names: "accept exit-outside force grace halt partial-ok stop-now"},
	{Title: "Costs", names: "max-cost"},
	{Title: "Fleet", names: "broker-patience credentials fleet insecure lease requires"},
	{Title: "Telemetry", names: "metrics metrics-file otel"},
}

// fewFlags is how many flags the help shows in one list.
const fewFlags = 16

// groupsOf returns the flags of a command by their groups, without empty ones.
func groupsOf(cmd *cobra.Command) []flagGroup {
	var shown []*pflag.Flag
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			shown = append(shown, f)
		}
	})
	groups := []flagGroup{{Title: "Flags"}}
	if len(shown) > fewFlags {
		groups = append(groups, flagGroups...)
	}
	for i := range groups {
		groups[i].flags = &pflag.FlagSet{}
	}
	for _, f := range shown {
		at := slices.IndexFunc(groups, func(g flagGroup) bool {
			return slices.Contains(strings.Fields(g.names), f.Name)
		})
		groups[max(at, 0)].flags.AddFlag(f)
	}
	return slices.DeleteFunc(groups, func(g flagGroup) bool { return !g.flags.HasFlags() })
}

// formerly makes cmd take flags by other names as well, which help does not show, such as their former names.
func formerly(cmd *cobra.Command, names map[string]string) {
	cmd.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, given string) pflag.NormalizedName {
		return pflag.NormalizedName(cmp.Or(names[given], given))
	})
}

// usageTemplate makes the help of root fit on a screen: commands of some groups are only named. The help of the other
// commands shows their flags in groups.
const usageTemplate = `Usage:{{if and .Runnable (not .HasSubCommands)}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} [command]{{end}}{{if .Aliases}}

Aliases:
  {{.NameAndAliases}}{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{$above := .}}{{range $group := .Groups}}{{if shownFully .ID}}

{{.Title}}{{range $above.Commands}}{{if eq .GroupID $group.ID}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{end}}{{if .Groups}}
{{range .Groups}}{{if not (shownFully .ID)}}
{{named $above .ID}}{{end}}{{end}}{{else if .HasAvailableSubCommands}}

Available Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{range flagGroups .}}

{{.Title}}:
{{trimTrailingWhitespaces .Usages}}{{end}}{{if .HasAvailableInheritedFlags}}

Global Flags:
{{trimTrailingWhitespaces .InheritedFlags.FlagUsages}}{{end}}{{if .HasAvailableSubCommands}}

Use "{{.CommandPath}} [command] --help" for more information about a command.{{end}}
`

// arrangeHelp sets the template for the help of all commands. The flags are as wide as the terminal.
func arrangeHelp(root *cobra.Command) {
	cobra.AddTemplateFunc("flagGroups", groupsOf)
	cobra.AddTemplateFunc("shownFully", func(group string) bool {
		return group == groupRun || group == groupLook || group == groupFix
	})
	cobra.AddTemplateFunc("named", func(cmd *cobra.Command, group string) string {
		var names []string
		for _, c := range cmd.Commands() {
			if c.GroupID == group {
				names = append(names, c.Name())
			}
		}
		return term.Look{Width: 80}.Fold(8, fmt.Sprintf("%-7s %s", group, strings.Join(names, ", ")))
	})
	root.SetUsageTemplate(usageTemplate)
}

// addFormat adds --output with these formats besides human, and --json as its short form.
func addFormat(con *console, cmd *cobra.Command, others ...term.Format) {
	addChoice(cmd, &con.format, "output", "output format", append([]term.Format{term.Human}, others...)...)
	addJSON(cmd, &con.format)
}

// value is a flag of any type. It implements pflag.Value.
type value[T any] struct {
	// at is where the value goes. Its default is what is there before.
	at *T
	// name is that of the type, for help and completion.
	name string
	// parse reads what the user typed. Its error says what was expected.
	parse func(text string) (T, error)
}

// String returns the value as help shows its default. A zero is no default to tell.
func (v value[T]) String() string {
	if reflect.ValueOf(*v.at).IsZero() {
		return ""
	}
	if d, ok := any(*v.at).(time.Duration); ok {
		return duration.Format(d)
	}
	return fmt.Sprint(*v.at)
}

// Type returns the word that help prints behind the flag.
func (v value[T]) Type() string { return v.name }

// Set parses and sets the value. A value that does not parse leaves the flag as it was.
func (v value[T]) Set(text string) error {
	parsed, err := v.parse(text)
	if err == nil {
		*v.at = parsed
	}
	return err
}

// addFlag adds a flag to cmd. The type of the value at says how it is read; what is there before is the default. names
// are the name and, behind a comma, a letter. complete completes the value.
func addFlag(cmd *cobra.Command, at any, names, usage string, complete ...cobra.CompletionFunc) {
	f := cmd.Flags()
	name, letter, _ := strings.Cut(names, ",")
	switch at := at.(type) {
	case *bool:
		f.BoolVarP(at, name, letter, *at, usage)
	case *string:
		f.StringVarP(at, name, letter, *at, usage)
	case *uint64:
		f.Uint64VarP(at, name, letter, *at, usage)
	case func():
		f.BoolFuncP(name, letter, usage, func(string) error {
			at()
			return nil
		})
	default:
		f.VarP(valueAt(at), name, letter, usage)
	}
	for _, c := range complete {
		_ = cmd.RegisterFlagCompletionFunc(name, c)
	}
}

// valueAt returns how a flag of one of these types is read. Any other is a pflag.Value itself.
func valueAt(at any) pflag.Value {
	switch at := at.(type) {
	case *time.Duration: // as workflow files write it
		return value[time.Duration]{at, durationType, duration.Parse}
	case *int:
		return value[int]{at, numberType, parsePositive}
	case *float64:
		return value[float64]{at, numberType, parseShare}
	case *[]string:
		return repeatedIf(at, "stringArray", func(string) error { return nil })
	}
	return at.(pflag.Value)
}

// addJSON adds --json as the short form of --output json.
func addJSON(cmd *cobra.Command, f *term.Format) {
	parse := func(text string) (term.Format, error) {
		on, err := strconv.ParseBool(text)
		if err != nil || !on {
			return *f, err
		}
		return term.JSON, nil
	}
	flag := cmd.Flags().VarPF(value[term.Format]{f, "bool", parse}, "json", "", "same as --output json")
	flag.NoOptDefVal, flag.DefValue = "true", ""
}

// addChoice adds a flag that takes one of these words.
func addChoice[T ~string](cmd *cobra.Command, at *T, name, usage string, words ...T) {
	texts := check.Words(words...)
	all := strings.Join(texts, ", ")
	parse := func(text string) (T, error) {
		if !slices.Contains(texts, text) {
			return "", fmt.Errorf("must be one of %s", all)
		}
		return T(text), nil
	}
	addFlag(cmd, value[T]{at, "word", parse}, name, usage+": "+all, cobra.FixedCompletions(texts, noMore))
}

// repeatedIf is a flag that may be given more than once; each adds one value that check accepts. The list flags of
// pflag would make a CSV writer to print their default.
func repeatedIf(at *[]string, name string, check func(text string) error) pflag.Value {
	parse := func(text string) ([]string, error) { return append(*at, text), check(text) }
	return value[[]string]{at, name, parse}
}

// textIf is a flag for a text that check accepts.
func textIf(at *string, name string, check func(text string) error) pflag.Value {
	return value[string]{at, name, func(text string) (string, error) { return text, check(text) }}
}

// filled is a flag for a text that is not empty, as that of an unset variable would be. empty is the error for that.
func filled(at *string, empty string) pflag.Value { return textIf(at, "string", refusing(empty)) }

// isEmpty says that the value of a flag is empty.
const isEmpty = "must not be empty"

// refusing returns what refuses an empty text.
func refusing(empty string) func(text string) error {
	return func(text string) error {
		if text == "" {
			return errors.New(empty)
		}
		return nil
	}
}

// The names of types in the help.
const (
	durationType = "duration"
	numberType   = "number"
)

// textFlag is a flag for a value that reads itself, and that is nil without the flag.
func textFlag[T any, P interface {
	*T
	ReadText(text string) error
}](at **T) pflag.Value {
	parse := func(text string) (*T, error) {
		v := new(T)
		return v, P(v).ReadText(text)
	}
	return value[*T]{at, "string", parse}
}

// parsePositive returns an integer of at least 1.
func parsePositive(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, errors.New("must be an integer of at least 1")
	}
	return n, nil
}

// parseShare returns a number from 0 to 1, which may be written as a percentage.
func parseShare(text string) (float64, error) {
	number, percentage := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(number, 64)
	if percentage {
		share /= 100
	}
	if err != nil || !(share >= 0 && share <= 1) {
		return 0, errors.New("must be from 0 to 1, or a percentage such as 30%")
	}
	return share, nil
}

// addMaxParallel adds the flag --max-parallel to cmd. It rejects more slots than the process can handle.
func addMaxParallel(cmd *cobra.Command, slots *int) {
	parse := func(text string) (int, error) {
		n, err := parsePositive(text)
		if err == nil {
			err = process.CapacityNow().Check(n)
		}
		return n, err
	}
	addFlag(cmd, value[int]{slots, numberType, parse}, "max-parallel,j",
		"maximum number of items to run at a time")
}

// addMaxCost adds the flag --max-cost to cmd.
func addMaxCost(cmd *cobra.Command, u *limit.USD) {
	addFlag(cmd, value[limit.USD]{u, "dollars", limit.ParseUSD}, "max-cost",
		"maximum total cost of AI agents in US dollars; the job then stops and can "+
			"be resumed with a higher limit")
}

// addMaxDelay adds the flag --max-delay to cmd.
func addMaxDelay(cmd *cobra.Command, d *time.Duration) {
	addFlag(cmd, d, "max-delay",
		"default max_delay (env: PRODIGY_MAX_DELAY)")
}

// poolFlag is a flag that takes a pool and its slots.
func poolFlag(at *jobs.Pool) pflag.Value {
	parse := func(text string) (p jobs.Pool, err error) {
		if p.Name = text; text != mapreduce.NoPool {
			p.Name, p.Slots, err = limit.ParseSharedPool(text)
		}
		return p, err
	}
	return value[jobs.Pool]{at, "pool", parse}
}

// addErrorType adds the flag --type to cmd.
func addErrorType(cmd *cobra.Command, typ *retry.Type) {
	addChoice(cmd, typ, "type", "only dead letters with this failure type", retry.Types()...)
}

// formatOf returns the format for the extension of a file, or by default another.
func formatOf(path string, byDefault term.Format) term.Format {
	switch f := term.Format(strings.TrimPrefix(strings.ToLower(filepath.Ext(path)), ".")); f {
	case term.JSON, term.JSONL, term.CSV:
		return f
	}
	return byDefault
}
