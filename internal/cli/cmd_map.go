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
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"prodigy/internal/agent"
	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/items"
	"prodigy/internal/settings"
	"prodigy/internal/shell"
	"prodigy/internal/term"
	"prodigy/internal/workflow"
)

// mapOptions are the flags of map: where the items come from, the command, and what the file would say of both.
type mapOptions struct {
	runOptions

	// Where the items come from: stdin unless one of argFile, glob and json is given. nul separates items by NUL.
	nul     bool
	argFile []string
	glob    []string
	json    string
	// path is a JSONPath in the file of --json.
	path string
	// replace stands for the item in place of {}.
	replace string
	// batch is the number of items per command. Zero starts a command for each item.
	batch int
	// words are the command and its arguments.
	words []string

	// These become keys of the workflow file. retries counts the first attempt.
	timeout   time.Duration
	retries   int
	backoff   string
	onFailure string
	halt      string
	emptyOK   bool
	// given is set if --backoff was, even with an empty value.
	given bool
	// save is the path that the workflow file is written to, in place of running it.
	save string
	// forRun are flags that the workflow file cannot hold. They go with the command that runs it.
	forRun []string
}

// newMapCommand returns the command that runs a command for each item, as xargs and GNU parallel do. Its flags are a
// workflow file written short.
func newMapCommand(con *console) *cobra.Command {
	var o mapOptions
	cmd := &cobra.Command{
		Use:                   "map [flags] [json path] -- <command> [argument...]",
		DisableFlagsInUseLine: true,
		Short:                 "Run a command for each item",
		Long: `Run a command for each item, without a workflow file.

Items are the lines of stdin, or come from --arg-file, --glob or --json-file. The words after -- are a program and its arguments; no shell is involved. A single word with spaces or shell characters is run as a script by sh.

Placeholders work as in xargs and GNU parallel, and are always a single argument:
  {} item, {.} without extension, {/} last path element, {//} directory, {/.} last element without extension,
  {#} item number, {%} slot number; ${item.name} a field of the item, or any other value of a workflow file.
Without a placeholder the item becomes the last argument. With --batch, {} expands to all items of the batch.

The result is a job like any other, with a log, dead letters and resume. --save writes the equivalent workflow file. Each item's output is printed when the item finishes; failures and the summary go to stderr.`,
		Example: `  prodigy map -0 -j8 --retry 5 -- convert {} {.}.jpg   # after: find . -name '*.png' -print0 |
  prodigy map --glob '**/*.go' -- gofmt -l {}
  prodigy map --json-file items.json '$.items[*]' -- 'curl -fsS ${item.url} -o ${item.id}.json'`,
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
	o.addRunning(cmd, term.Grouped)
	f := cmd.Flags()
	f.BoolVarP(&o.nul, "null", "0", false,
		"items are separated by NUL, as with find -print0")
	f.VarP(repeated(&o.argFile), "arg-file", "a", "read items from this file, one per line (repeatable)")
	f.Var(repeated(&o.glob), "glob",
		"use matching file names as items, such as 'src/**/*.go' (repeatable)")
	formerly(cmd, "json", "json-file")
	f.StringVar(&o.json, "json-file", "", "read items from this file: its elements, or those selected by a JSONPath "+
		"after it")
	f.BoolVarP(&o.emptyOK, "no-run-if-empty", "r", false, "succeed without doing anything if there are no items")
	f.StringVarP(&o.replace, "replace", "I", "", "use this placeholder instead of {} and its variants")
	f.VarP(positive(&o.batch), "batch", "n", "number of items per command")
	f.VarP(parallelFlag(&o.maxParallel), "max-procs", "P", "same as --max-parallel")
	f.Var(value[time.Duration]{&o.timeout, durationType, workflow.ParseSeconds, shownUnlessZero(duration.Format)}, "timeout",
		"timeout per command, such as 30s; a number is in seconds")
	f.Var(positive(&o.retries), "retry", "maximum attempts per item, including the first; the delays grow from 1s")
	f.StringVar(&o.backoff, "backoff", "",
		"backoff of --retry: fixed, linear, exponential, fibonacci, or a fixed delay such as 10s")
	f.StringVar(&o.onFailure, "on-failure", "",
		"action for failed items: dlq, retry, skip, stop")
	f.StringVar(&o.halt, "halt", "",
		"when to stop: never, soon,fail=3, or now,fail=10% (now kills running commands)")
	f.Uint64Var(&o.seed, "seed", 0, "random seed for jitter (0 for a random one)")
	addMaxDelay(cmd, &o.maxDelay)
	f.BoolVarP(&o.keepOrder, "keep-order", "k", false, "print output in item order")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the commands without running them")
	f.StringVar(&o.save, "save", "", "write the equivalent workflow to this file, without running it")
	return cmd
}

// keptForRun are the flags that the command of a saved workflow repeats.
const keptForRun = `durability fleet grace insecure keep-order lease log-steps max-delay partial-ok quiet seed
	stop-now`

// take takes the command from behind --, and the path of --json-file from before it.
func (o *mapOptions) take(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	if dash < 0 {
		command := "gzip {}"
		if len(args) > 0 {
			command = shellWords(args)
		}
		return usagef("no -- before the command: prodigy map [flags] -- %s", command)
	}
	o.words = args[dash:]
	if len(o.words) == 0 {
		return usagef("no command given after --")
	}
	before := args[:dash]
	switch {
	case len(before) > 0 && o.json == "":
		return usagef("unexpected argument %q before --", before[0])
	case len(before) > 1:
		return usagef("unexpected argument %q before --", before[1])
	case len(before) == 1:
		o.path = before[0]
	}
	var sources []string
	for _, name := range []string{"arg-file", "glob", "json-file"} {
		if cmd.Flags().Changed(name) {
			sources = append(sources, "--"+name)
		}
	}
	if len(sources) > 1 {
		return usagef("%s and %s cannot be used together: both set the source of items", sources[0], sources[1])
	}
	if o.nul && (o.glob != nil || o.json != "") {
		return usagef("--null and %s cannot be used together", sources[0])
	}
	for name := range strings.FieldsSeq("json-file replace save halt on-failure") {
		if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
			return usagef("--%s must not be empty", name)
		}
	}
	if slices.Contains(slices.Concat(o.argFile, o.glob), "") {
		return usagef("%s must not be empty", sources[0])
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.String() != "false" && check.Among(keptForRun, f.Name) {
			o.forRun = append(o.forRun, "--"+f.Name)
			if f.Value.Type() != "bool" {
				o.forRun = append(o.forRun, f.Value.String())
			}
		}
	})
	return o.checkEcho()
}

// file returns the workflow file that the flags describe.
func (o *mapOptions) file() ([]byte, error) {
	script, err := o.script()
	if err != nil {
		return nil, refusef("%w", err)
	}
	step := workflow.ShortStep{Shell: script}
	w := workflow.Short{Name: o.name(), OnItemFailure: o.onFailure, Map: workflow.ShortMap{
		JSONPath: o.path, Batch: o.batch, MaxParallel: o.maxParallel, Requires: o.fleet.requires,
	}}
	in := &w.Map.Input
	switch {
	case o.glob != nil:
		in.Glob = o.glob
	case o.json != "":
		in.File = []string{o.json}
		if workflow.FormatOfFile(o.json) == "" {
			in.Format = "json"
		}
	case o.nul:
		in.File, in.Format = o.argFile, "nul"
	default:
		in.File, in.Format = o.argFile, "lines"
	}
	if o.emptyOK {
		w.Map.OnEmpty = workflow.EmptyIsOK
	}
	if o.timeout > 0 {
		step.Timeout = duration.Format(o.timeout)
	}
	if step.Retry, err = o.retry(); err != nil {
		return nil, err
	}
	if err := o.halting(&w); err != nil {
		return nil, err
	}
	w.Map.Steps[0] = step
	return w.File()
}

// isScript reports whether the command is a script: a single word that holds more than a name.
func (o *mapOptions) isScript() bool {
	return len(o.words) == 1 && shell.Quote(o.words[0]) != o.words[0]
}

// script returns the script of the one step.
func (o *mapOptions) script() (string, error) {
	style := shell.Shorthand{Batch: o.batch > 0, Replace: o.replace}
	if o.isScript() {
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

// retry returns how often the command is tried.
func (o *mapOptions) retry() (r workflow.ShortRetry, err error) {
	switch {
	case o.retries == 0 && o.given:
		return r, usagef("--backoff requires --retry N")
	case o.retries == 0:
		return r, nil
	}
	r = workflow.ShortRetry{Attempts: o.retries, Backoff: o.backoff}
	if d, err := duration.Parse(o.backoff); err == nil {
		r.Backoff, r.Delay = "fixed", duration.Format(d)
	}
	return r, nil
}

// halting sets when the job stops, by the words of GNU parallel.
func (o *mapOptions) halting(w *workflow.Short) error {
	const want = "must be never, or soon or now with a limit: soon,fail=1, now,fail=10%%"
	when, limit, both := strings.Cut(o.halt, ",")
	switch {
	case o.halt == "" || o.halt == "never":
		return nil
	case when != "now" && when != "soon" || !both:
		return usagef("--halt %s: "+want, o.halt)
	}
	number, ok := strings.CutPrefix(limit, "fail=")
	if !ok {
		return usagef("--halt %s: only fail= is supported: "+want, o.halt)
	}
	if percent, ok := strings.CutSuffix(number, "%"); ok {
		p, err := strconv.ParseFloat(percent, 64)
		if err != nil || !(p > 0 && p <= 100) {
			return usagef("--halt %s: %s is not a percentage between 0%% and 100%%", o.halt, number)
		}
		w.Threshold = new(p / 100)
	} else {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 {
			return usagef("--halt %s: %s must be a percentage or an integer of at least 1", o.halt, number)
		}
		w.MaxFailures = n
	}
	o.stopNow = o.stopNow || when == "now"
	return nil
}

// runMap makes the workflow file of the flags and runs it, saves it or prints its commands. Problems of that file are
// reported as mistakes of the command line.
func runMap(ctx context.Context, con *console, o mapOptions) error {
	source, err := o.file()
	if err != nil {
		return err
	}
	purpose := settings.ToRun
	if o.dryRun || o.save != "" {
		purpose = settings.ToPlan
	}
	w, err := loadSource(ctx, "the command", source, o.checkedAs(), o.settings, purpose)
	if err != nil {
		return o.asRefusal(err, source)
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
	if err := o.checkProgram(); err != nil {
		return err
	}
	for _, found := range w.warnings {
		con.say().Printf("warning: %s", found.Message)
	}
	w.warnings = nil
	o.quiet = o.quiet || !con.live
	return o.start(ctx, con, w)
}

// checkProgram returns an error if the command is a program that is not on this machine, so that a typing error is no
// failure of each item. It says nothing of scripts, of programs that are named by the items, and of what workers run.
func (o *mapOptions) checkProgram() error {
	name := o.words[0]
	if o.isScript() || o.fleet.wanted() || strings.ContainsAny(name, "{$") ||
		o.replace != "" && strings.Contains(name, o.replace) {
		return nil
	}
	if _, err := exec.LookPath(name); errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return refusef("%s: command not found", name)
	}
	return nil
}

// asRefusal returns the problems of the file that was made of the command line as problems of that.
func (o *mapOptions) asRefusal(err error, source []byte) error {
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
	_, err := fmt.Fprintf(con.err, "written; to run it: %s\n", strings.Join(check.Each(command, quoted), " "))
	return err
}

// createWhole makes a file. One that is there already is left as it is.
func createWhole(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return refusef("%s already exists and is not overwritten: remove it, or choose another file", path)
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
		Phase: "map", Workflow: w.Name, Worker: 1, Dir: w.dir, Batch: w.Map.Batch > 0,
		Steps: w.Map.AgentTemplate,
	}
	for it, err := range items.Select(ctx, w.Map, env) {
		if err != nil {
			return selectionError(fmt.Errorf("select the items: %w", err))
		}
		a.Assignment = agent.Assignment{ItemID: it.ID, ItemIndex: it.Index, Item: json.RawMessage(it.Data), Number: 1}
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
