package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"prodigy/internal/duration"
	"prodigy/internal/process"
)

// format is an output format.
type format string

const (
	asHuman format = "human"
	asJSON  format = "json"
	asJSONL format = "jsonl"
	asCSV   format = "csv"
)

// addFormat adds --output with these formats besides human, and --json as its short form.
func addFormat(cmd *cobra.Command, f *format, others ...format) {
	*f = asHuman
	names := []string{string(asHuman)}
	for _, o := range others {
		names = append(names, string(o))
	}
	addChoice(cmd, (*string)(f), "output", "output format", names...)
	flag := cmd.Flags().VarPF(jsonFlag{f}, "json", "", "same as --output json")
	flag.NoOptDefVal = "true"
}

// jsonFlag is --json. It follows pflag.Value, as the types below do.
type jsonFlag struct{ format *format }

func (j jsonFlag) String() string { return "" }
func (j jsonFlag) Type() string   { return "bool" }

func (j jsonFlag) Set(s string) error {
	on, err := strconv.ParseBool(s)
	if err == nil && on {
		*j.format = asJSON
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

// several is a flag that may be given more than once; each adds one value unchanged. The list flags of pflag would make a CSV writer to
// print their default.
type several struct{ values *[]string }

func (s several) String() string { return strings.Join(*s.values, " ") }
func (s several) Type() string   { return "stringArray" }

func (s several) Set(value string) error {
	*s.values = append(*s.values, value)
	return nil
}

// length is a flag that takes a duration as workflow files write it.
type length struct{ value *time.Duration }

func (l length) String() string {
	if *l.value == 0 {
		return ""
	}
	return duration.Format(*l.value)
}

func (l length) Type() string { return "duration" }

func (l length) Set(s string) error {
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

// atOnce is the flag for the number of slots. It rejects more than the process can handle.
type atOnce struct{ positive }

func (a atOnce) Set(s string) error {
	if err := a.positive.Set(s); err != nil {
		return err
	}
	return process.CapacityNow().Check(*a.value)
}

// addMaxDelay adds the flag --max-delay to cmd.
func addMaxDelay(cmd *cobra.Command, d *time.Duration) {
	cmd.Flags().Var(length{d}, "max-delay", "upper limit for delays that set none of their own (also: PRODIGY_MAX_DELAY)")
}
