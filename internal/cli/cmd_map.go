package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"prodigy/internal/agent"
	"prodigy/internal/duration"
	"prodigy/internal/items"
	"prodigy/internal/mapreduce"
	"prodigy/internal/settings"
	"prodigy/internal/shell"
	"prodigy/internal/term"
	"prodigy/internal/workflow"
)

// mapOptions are the flags of map: where the items come from, the command, and what the file would say of both.
type mapOptions struct {
	runOptions
	nul     bool
	argFile []string
	glob    []string
	json    string
	path    string // in the JSON
	replace string
	batch   int
	words   []string

	timeout   time.Duration
	retries   int
	backoff   string
	onFailure string
	halt      string
	save      string
	emptyOK   bool
	given     bool     // backoff was given
	forRun    []string // flags that are no part of the file, for the run of it
}

func newMapCommand(con *console) *cobra.Command {
	var o mapOptions
	cmd := &cobra.Command{
		Use:                   "map [flags] [json path] -- <command> [argument...]",
		DisableFlagsInUseLine: true,
		Short:                 "Run a command for each item, without a workflow file",
		Long: `Run a command for each item, without a workflow file.

The items are the lines of the standard input, or what --arg-file, --glob or --json name. The words behind -- are a program and its
arguments, and no shell reads them. One word with blanks or other characters of a shell in it is a script for sh.

In both, the item is named as with xargs and GNU parallel, and is one argument whatever it holds:
  {} the item, {.} without its extension, {/} its last part, {//} what is before that, {/.} its last part without extension,
  {#} its number, {%} the number of its slot; ${item.name} a field of an item, and what else a workflow file can name.
If nothing names it, it is the last argument. With --batch, {} is an argument for each item of the batch.

It is a job like those of run: with a log, dead letters and resume. --save writes the workflow file that does the same. Commands print
to stdout and stderr, each item as a whole when it has ended; failures and how the job ended go to stderr.`,
		Example: `  prodigy map -0 -j8 --retry 5 -- convert {} {.}.jpg   # behind: find . -name '*.png' -print0 |
  prodigy map --glob '**/*.go' -- gofmt -l {}
  prodigy map --json items.json '$.items[*]' -- 'curl -fsS ${item.url} -o ${item.id}.json'`,
		Args: func(cmd *cobra.Command, args []string) error { return o.take(cmd, args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			o.given = cmd.Flags().Changed("backoff")
			if !o.dryRun && o.save == "" {
				if err := o.fleet.find(cmd); err != nil {
					return err
				}
			}
			return runMap(cmd.Context(), con, o)
		},
	}
	o.format = term.Human
	o.addRunning(cmd)
	f := cmd.Flags()
	f.BoolVarP(&o.nul, "null", "0", false,
		"items end with a NUL byte instead of a line end, as find -print0 writes them")
	f.VarP(repeated(&o.argFile), "arg-file", "a", "the items are the lines of this file (may be given more than once)")
	f.Var(repeated(&o.glob), "glob",
		"the items are the names of the files that match, such as 'src/**/*.go' (may be given more than once)")
	f.StringVar(&o.json, "json", "", "the items are in this file: what a JSONPath behind it selects, else its elements")
	f.BoolVarP(&o.emptyOK, "no-run-if-empty", "r", false, "without items do nothing and succeed, instead of failing")
	f.StringVarP(&o.replace, "replace", "I", "", "the text that stands for the item, instead of {} and the others")
	f.VarP(positive(&o.batch), "batch", "n", "how many items a command gets at once")
	addMaxParallel(cmd, &o.maxParallel)
	f.VarP(parallelFlag(&o.maxParallel), "max-procs", "P", "same as --max-parallel")
	f.Var(durationFlag(&o.timeout), "timeout", "time limit of each command, such as 30s")
	f.Var(positive(&o.retries), "retry", "how often a command is tried in all while it fails; the delays grow from 1s")
	f.StringVar(&o.backoff, "backoff", "",
		"how the delays of --retry grow: fixed, linear, exponential and so on, or one delay, such as 10s")
	f.StringVar(&o.onFailure, "on-failure", "",
		"what happens to an item that failed: dlq, retry, skip, stop (default dlq)")
	f.StringVar(&o.halt, "halt", "",
		"when the job stops: never, or soon,fail=3 or now,fail=10%; now kills running commands")
	f.Uint64Var(&o.seed, "seed", 0, "seed for the jitter of delays, to make them repeatable; 0: random")
	addMaxDelay(cmd, &o.maxDelay)
	f.BoolVarP(&o.keepOrder, "keep-order", "k", false, "show what commands print in the order of the items")
	o.echo.add(cmd, term.Grouped)
	o.fleet.add(cmd)
	f.BoolVar(&o.dryRun, "dry-run", false, "print the command of each item, and run nothing")
	f.StringVar(&o.save, "save", "", "write the workflow that does the same to this file, and run nothing")
	return cmd
}

// take takes the command from behind --, and the path of --json from before it.
func (o *mapOptions) take(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	if dash < 0 {
		return usagef("the command is missing: write it behind --, as in prodigy map -- gzip {}")
	}
	o.words = args[dash:]
	if len(o.words) == 0 {
		return usagef("there is no command behind --")
	}
	before := args[:dash]
	switch {
	case len(before) > 0 && o.json == "":
		return usagef("unexpected argument %q in front of --", before[0])
	case len(before) > 1:
		return usagef("unexpected argument %q in front of --", before[1])
	case len(before) == 1:
		o.path = before[0]
	}
	var sources []string
	for _, name := range []string{"arg-file", "glob", "json"} {
		if cmd.Flags().Changed(name) {
			sources = append(sources, "--"+name)
		}
	}
	if len(sources) > 1 {
		return usagef("%s and %s exclude each other: both say where the items come from", sources[0], sources[1])
	}
	if o.nul && (o.glob != nil || o.json != "") {
		return usagef("--null and %s exclude each other", sources[0])
	}
	for _, name := range []string{"json", "replace", "save", "halt", "on-failure"} {
		if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
			return usagef("--%s must not be empty", name)
		}
	}
	if slices.Contains(slices.Concat(o.argFile, o.glob), "") {
		return usagef("%s must not be empty", sources[0])
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.String() != "false" && slices.Contains([]string{
			"durability", "fleet", "grace", "insecure",
			"keep-order", "lease", "log-steps", "max-delay", "partial-ok", "quiet", "seed", "stop-now",
		}, f.Name) {
			o.forRun = append(o.forRun, "--"+f.Name)
			if f.Value.Type() != "bool" {
				o.forRun = append(o.forRun, f.Value.String())
			}
		}
	})
	return o.echo.check(o.jobOptions)
}

// file returns the workflow file that the flags describe.
func (o *mapOptions) file() ([]byte, error) {
	script, err := o.script()
	if err != nil {
		return nil, refusef("%w", err)
	}
	w := workflow.Short{
		Name: o.name(), Script: script, JSONPath: o.path, Batch: o.batch, EmptyOK: o.emptyOK,
		MaxParallel: o.maxParallel, Requires: o.fleet.requires, Timeout: o.timeout, OnItemFailure: o.onFailure,
	}
	switch {
	case o.glob != nil:
		w.Globs = o.glob
	case o.json != "":
		w.Files = []string{o.json}
		if workflow.FormatOfFile(o.json) == "" {
			w.Format = "json"
		}
	case o.nul:
		w.Files, w.Format = o.argFile, "nul"
	default:
		w.Files, w.Format = o.argFile, "lines"
	}
	if err := o.retry(&w); err != nil {
		return nil, err
	}
	if err := o.halting(&w); err != nil {
		return nil, err
	}
	return w.File()
}

// script returns the script of the one step: a single word that holds more than a name is one already.
func (o *mapOptions) script() (string, error) {
	style := shell.Shorthand{Batch: o.batch > 0, Replace: o.replace}
	if len(o.words) == 1 && shell.Quote(o.words[0]) != o.words[0] {
		return style.Script(o.words[0])
	}
	return style.Words(o.words)
}

// name returns the name of the workflow: what is run.
func (o *mapOptions) name() string {
	first, _, _ := strings.Cut(strings.TrimSpace(o.words[0]), " ")
	if name := filepath.Base(first); name != "" &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-") == "" {
		return "map " + name
	}
	return "map"
}

// retry sets how often the command is tried.
func (o *mapOptions) retry(w *workflow.Short) error {
	if o.retries == 0 && o.given {
		return usagef("--backoff needs --retry N")
	}
	w.Attempts, w.Backoff = o.retries, o.backoff
	if d, err := duration.Parse(o.backoff); err == nil {
		w.Backoff, w.Delay = "fixed", duration.Format(d)
	}
	return nil
}

// halting sets when the job stops, by the words of GNU parallel.
func (o *mapOptions) halting(w *workflow.Short) error {
	const want = `want never, or soon or now and when: soon,fail=1, now,fail=10%%`
	when, limit, both := strings.Cut(o.halt, ",")
	switch {
	case o.halt == "" || o.halt == "never":
		return nil
	case when != "now" && when != "soon" || !both:
		return usagef("--halt %s: "+want, o.halt)
	}
	number, ok := strings.CutPrefix(limit, "fail=")
	if !ok {
		return usagef("--halt %s: only failures stop a job: "+want, o.halt)
	}
	if percent, ok := strings.CutSuffix(number, "%"); ok {
		p, err := strconv.ParseFloat(percent, 64)
		if err != nil || !(p > 0 && p <= 100) {
			return usagef("--halt %s: %s is not a percentage from 0%% to 100%%", o.halt, number)
		}
		w.Threshold = new(p / 100)
	} else {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 {
			return usagef("--halt %s: %s is not a whole number from 1, or a percentage", o.halt, number)
		}
		w.MaxFailures = n
	}
	o.stopNow = o.stopNow || when == "now"
	return nil
}

func runMap(ctx context.Context, con *console, o mapOptions) error {
	source, err := o.file()
	if err != nil {
		return err
	}
	limit, err := delayCap(o.maxDelay)
	if err != nil {
		return err
	}
	purpose := settings.ToRun
	if o.dryRun || o.save != "" {
		purpose = settings.ToPlan
	}
	c := mapreduce.Config{MaxDelay: limit, MaxParallel: o.maxParallel}
	c.OnFleet = o.fleet.wanted()
	w, err := loadSource(ctx, "the command", source, c, o.settings, purpose)
	if err != nil {
		return o.explained(err, source)
	}
	w.File = "" // there is none
	switch {
	case o.save != "":
		return o.saveAs(con, source)
	case o.dryRun:
		return printCommands(ctx, con.text(), w)
	}
	if err := o.fleet.check(con, w.Workflow, o.quiet); err != nil {
		return err
	}
	o.quiet = o.quiet || !con.live
	return o.start(ctx, con, w, limit)
}

// explained returns the problems of the file that was made of the command line as problems of that.
func (o *mapOptions) explained(err error, source []byte) error {
	problems, ok := problemsOf(err)
	if !ok {
		return err
	}
	var texts []string
	for _, p := range problems {
		if !slices.Contains(texts, p.Message) {
			texts = append(texts, p.Message)
		}
	}
	return refusef("%s\nThe workflow would have been:\n%s", strings.Join(texts, "\n"), bytes.TrimSpace(source))
}

// saveAs writes the workflow file, and prints the command that does the same with it.
func (o *mapOptions) saveAs(con *console, source []byte) error {
	if o.save == "-" {
		_, err := con.out.Write(source)
		return err
	}
	if err := createWhole(o.save, source); err != nil {
		return err
	}
	command := slices.Concat([]string{"prodigy", "run", o.save}, o.echo.flags(), o.forRun)
	if o.stopNow && !slices.Contains(command, "--stop-now") {
		command = append(command, "--stop-now") // of --halt
	}
	for i, word := range command {
		command[i] = quoted(word)
	}
	_, err := fmt.Fprintf(con.err, "written; to do the same: %s\n", strings.Join(command, " "))
	return err
}

// createWhole makes a file. One that is there already is left as it is.
func createWhole(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return refusef("%s is there already, and is not overwritten: remove it, or name another file", path)
	}
	if err != nil {
		return refusef("%w", err)
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}

// printCommands prints the command of each item.
func printCommands(ctx context.Context, out io.Writer, w checked) error {
	env := items.Env{
		Dir: w.dir, Environ: os.Environ(), Fill: w.settings.Fill, Stdin: os.Stdin,
		Secret: w.settings.Mask.Holds,
	}
	a := agent.Attempt{
		Phase: "map", Workflow: w.Name, Number: 1, Worker: 1, Dir: w.dir, Batch: w.Map.Batch > 0,
		Steps: w.Map.AgentTemplate,
	}
	for it, err := range items.Select(ctx, w.Map, env) {
		if err != nil {
			return mistaken(fmt.Errorf("select the items: %w", err))
		}
		a.ItemID, a.ItemIndex, a.Item = it.ID, it.Index, json.RawMessage(it.Data)
		commands, err := agent.Render(a)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, commands[0]); err != nil {
			return unlessClosed(err)
		}
	}
	return nil
}
