package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"prodigy/internal/check"
	"prodigy/internal/items"
	"prodigy/internal/job"
	"prodigy/internal/process"
	"prodigy/internal/settings"
	"prodigy/internal/shell"
	"prodigy/internal/term"
	"prodigy/internal/workflow"
)

// mapOptions are the flags of map. What a workflow file says is in short.
type mapOptions struct {
	runOptions
	short workflow.Short

	// json is a file of items. The path of short selects in it.
	json string
	// link goes through several lists together, in place of making all combinations.
	link bool
	// save is the path that the workflow file is written to, in place of running it.
	save string
}

// newMapCommand returns the command that runs a command for each item, as xargs and GNU parallel do. Its flags are a
// workflow file written short.
func newMapCommand(con *console) *cobra.Command {
	var o mapOptions
	cmd := &cobra.Command{
		Use:                   "map [flags] [json path] [--] <command> [argument...] [::: item...]",
		DisableFlagsInUseLine: true,
		Short:                 "Run a command for each item",
		Long: `Run a command for each item, without a workflow file.

Items are the lines of stdin, or come from --arg-file, --glob or --json-file, or follow the command:
::: a b are items, :::: FILE is a file of items (- for stdin). Several of these make all
combinations; :::+ or --link pairs them instead.

Flags end at the first word that is not one, or at --. The words after them are a program and its
arguments; no shell is involved. A single word with spaces or shell characters is run as a script by
sh. With --agent, the words are a prompt.

Placeholders work as in xargs and GNU parallel, and are always a single argument:
  {}            the item
  {.}           item without extension
  {/}           last path element
  {//}          directory
  {/.}          last path element without extension
  {1} {-1}      parts of an item, of several :::, --colsep or -N; also {1/.} and so on
  {#} {%}       item number, slot number
  ${item.name}  a field of the item, or any other value of a workflow file
Without a placeholder the item becomes the last argument. With --batch, {} expands to all items of the
batch.

The result is a job like any other, with a log, dead letters and resume. --save writes the equivalent
workflow file. Each item's output is printed when the item finishes; failures and the summary go to
stderr.`,
		Example: `  prodigy map -j4 gzip -9 {} ::: *.txt
  prodigy map -0 -j8 --retry 5 -- convert {} {.}.jpg   # after: find . -name '*.png' -print0 |
  prodigy map --glob '**/*.go' --agent claude --workspace git 'Add doc comments to {}'
  prodigy map --json-file items.json '$.items[*]' -- 'curl -fsS ${item.url} -o ${item.id}.json'`,
		Args: func(cmd *cobra.Command, args []string) error { return o.take(con, cmd, args) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !o.dryRun && o.save == "" {
				if err := o.fleet.find(cmd); err != nil {
					return err
				}
			}
			return runMap(cmd.Context(), con, o)
		},
	}
	o.addRunning(cmd, term.Grouped)
	o.settings.addWorkspace(cmd)
	addMaxDelay(cmd, &o.MaxDelay)
	w := &o.short
	in, step := &w.Map.Input, &w.Map.Steps[0]
	f := cmd.Flags()
	f.SetInterspersed(false)
	formerly(cmd, otherFlags)
	slots := value[int]{&o.MaxParallel, numberType, process.CapacityNow().Slots}
	f.Lookup("max-parallel").Value = slots
	addFlag(cmd, slots, "max-procs,P",
		"same as --max-parallel; 0 for as many as possible; 200%, +1 and -1 are relative to the processors")
	addFlag(cmd, func() { in.Delimiter = "\x00" }, "null,0", "items are separated by NUL, as with find -print0")
	addFlag(cmd, value[string]{&in.Delimiter, "char", workflow.ParseDelimiter}, "delimiter,d",
		"items are separated by this character, such as , or '\\t'")
	isRegexp := func(text string) error {
		_, err := regexp.Compile(text)
		return err
	}
	addFlag(cmd, textIf(&in.Split, "regexp", isRegexp), "colsep,C",
		"split items into {1}, {2}, ... at this regular expression")
	addFlag(cmd, repeatedIf((*[]string)(&in.File), "stringArray", refusing(isEmpty)), "arg-file,a",
		"read items from this file, one per line (repeatable)")
	addFlag(cmd, repeatedIf((*[]string)(&in.Glob), "stringArray", refusing(isEmpty)), "glob",
		"use matching file names as items, such as 'src/**/*.go' (repeatable)")
	addFlag(cmd, filled(&o.json, isEmpty), "json-file",
		"read items from this file of JSON, JSONL or CSV: its elements or rows, or what a "+
			"JSONPath after it selects, in each row")
	addFlag(cmd, &o.link, "link", "pair the items of several :::, repeating the shorter ones")
	addFlag(cmd, func() { w.Map.OnEmpty = workflow.EmptyIsOK }, "no-run-if-empty,r",
		"succeed without doing anything if there are no items")
	addFlag(cmd, filled(&w.Replace, isEmpty), "replace,I", "use this placeholder instead of {} and its variants")
	addFlag(cmd, &w.Map.Batch, "batch,n", "number of items per command")
	addFlag(cmd, &w.Map.Batch, "max-replace-args,N", "same as --batch")
	addFlag(cmd, &w.Map.Batch, "max-lines,L", "same as --batch")
	addFlag(cmd, &w.Agent, "agent", "run this AI coding CLI, such as claude; the words are its prompt")
	addFlag(cmd, &o.AllowDirty, "allow-dirty", "with --workspace git, start despite uncommitted changes")
	addFlag(cmd, value[string]{&step.Timeout, durationType, workflow.ParseTime}, "timeout",
		"timeout per command, such as 30s; a number is in seconds")
	addFlag(cmd, &step.Retry.Attempts, "retry",
		"maximum attempts per item, including the first (delays start at 1s)")
	backoff := func(text string) (string, error) {
		switch delay, err := workflow.ParseTime(text); {
		case err == nil, strings.Contains(text, "."):
			return delay, err
		case text == "custom":
			return "", errors.New("its delays can only be set in a workflow file")
		}
		return text, nil
	}
	addFlag(cmd, value[string]{&step.Retry.Backoff, "string", backoff}, "backoff",
		"backoff of --retry: fixed, linear, exponential, fibonacci, or a fixed delay such as 10s; a number is in seconds")
	addFlag(cmd, (*[]string)(&step.Retry.RetryOn), "retry-on",
		"retry only failures of this type, such as network or timeout, or with this exit code (repeatable)")
	addFlag(cmd, &w.Map.Rate.Limit, "rate", "maximum start rate, such as 10/s or 100/min")
	apart := value[workflow.ShortRate]{&w.Map.Rate, durationType, workflow.ParseApart}
	addFlag(cmd, apart, "delay",
		"time between two starts, such as 500ms; a number is in seconds")
	addFlag(cmd, filled(&w.OnItemFailure, isEmpty), "on-failure",
		"action for failed items: dlq, retry, skip, stop")
	addFlag(cmd, value[workflow.Halt]{&w.Halt, "when", workflow.ParseHalt}, "halt",
		"when to stop: never, soon,fail=3, or now,fail=10% (now kills running commands; a percentage counts once "+
			"10 items have finished)")
	addFlag(cmd, &o.Seed, "seed", "random seed for jitter (0 for a random one)")
	addFlag(cmd, &o.keepOrder, "keep-order,k", "print output in item order")
	addFlag(cmd, func() { step.Interpreter = []string{"sh", "-xc"} }, "verbose,t",
		"print each command on stderr, before its output")
	addFlag(cmd, &w.Results, "results",
		"write the stdout of each success to DIR/NUMBER/stdout, or to the file that {} makes of DIR")
	addFlag(cmd, &o.joblog, "joblog", "write a row for each item to this file at the end, as parallel does")
	f.Bool("bar", false, "ignored; a terminal always shows progress")
	addFlag(cmd, &o.dryRun, "dry-run", "print the commands without running them")
	addFlag(cmd, filled(&o.save, isEmpty), "save", "write the equivalent workflow to this file, without running it")
	for _, names := range []string{
		"rate delay", "arg-file glob json-file", "null glob", "null json-file", "delimiter glob", "delimiter json-file",
	} {
		cmd.MarkFlagsMutuallyExclusive(strings.Fields(names)...)
	}
	return cmd
}

// otherFlags are names that xargs, GNU parallel and earlier versions have for flags of map.
var otherFlags = map[string]string{
	"json": "json-file", "jobs": "max-parallel", "retries": "retry", "max-args": "batch", "dryrun": "dry-run",
	"progress": "bar", "eta": "bar", "lb": "line-buffer", "linebuffer": "line-buffer", "xapply": "link",
	"halt-on-error": "halt", "keeporder": "keep-order", "file": "arg-file",
	"input": "arg-file",
}

// operators are words that mean something to a shell, but are arguments here.
const operators = "| || && ; & < 2> 2>&1 &>"

// take takes the path of --json-file, the command, and the lists after it. Without a path the command begins with the
// first word that is not a flag.
func (o *mapOptions) take(con *console, cmd *cobra.Command, args []string) error {
	f := cmd.Flags()
	if o.json != "" && f.ArgsLenAtDash() < 0 && len(args) > 0 &&
		(strings.HasPrefix(args[0], "$") || slices.Contains(args, "--")) {
		o.short.Map.JSONPath = args[0]
		if err := f.Parse(args[1:]); err != nil {
			return wrongFlag(cmd, err)
		}
		args = f.Args()
	}
	line := shell.ReadLine(args)
	o.short.Command = line.Command
	if err := o.checkWords(args[len(line.Command):], f.ArgsLenAtDash() == 0); err != nil {
		return err
	}
	in := &o.short.Map.Input
	if line.Lists != nil && (in.File != nil || in.Glob != nil || o.json != "") {
		return usagef("::: cannot be used with --arg-file, --glob or --json-file: all set the source of items")
	}
	for _, name := range []string{"backoff", "retry-on"} {
		if f.Changed(name) && !f.Changed("retry") {
			return usagef("--%s requires --retry N", name)
		}
	}
	if o.short.Now {
		_ = f.Set("stop-now", "true")
	}
	o.complete()
	return cmp.Or(o.takeLists(cmd.Context(), line), o.checkEcho(con))
}

// checkWords returns what is wrong with the words of the command, before lists of items. dashed reports whether they
// follow --.
func (o *mapOptions) checkWords(lists []string, dashed bool) error {
	words := o.short.Command
	switch {
	case len(words) == 0:
		return usagef("no command given, as in prodigy map gzip -9; if each item is a command: prodigy map -- '${item|raw}'")
	case dashed || o.short.Agent != "":
		return nil
	case len(words) > 1 && words[1] == "--" && isMissing(words[0]):
		return usagef("unexpected argument %q before --; for a file of items: -a FILE", words[0])
	case len(words) > 1 && strings.HasPrefix(words[1], "-") && strings.Contains(words[0], " ") && isMissing(words[0]):
		return usagef("%q is not a program; flags come before the command: prodigy map %s", words[0],
			shellWords(slices.Concat(words[1:], words[:1], lists)))
	}
	for _, word := range words {
		if check.Among(operators, word) || strings.HasPrefix(word, ">") {
			return usagef("%s would be an argument, since no shell reads these words: for a script use\n"+
				"  prodigy map %s\nand for the argument put -- before the command",
				word, shellWords(append([]string{strings.Join(words, " ")}, lists...)))
		}
	}
	return nil
}

// complete fills in what the flags say of the workflow file in other words.
func (o *mapOptions) complete() {
	w := &o.short
	w.Map.MaxParallel, w.Map.Requires, w.Workspace = o.MaxParallel, o.fleet.requires, o.settings.workspace
	switch in := &w.Map.Input; {
	case o.json != "":
		in.File = []string{o.json}
		if workflow.FormatOfFile(o.json) == "" {
			in.Format = "json"
		}
	case in.Delimiter == "\x00":
		in.Format, in.Delimiter = "nul", ""
	case in.Glob == nil:
		in.Format = "lines"
	}
}

// takeLists takes the items of the lists after the command. One file is read by the job, and several lists here.
func (o *mapOptions) takeLists(ctx context.Context, line shell.Line) (err error) {
	in := &o.short.Map.Input
	switch {
	case line.Lists == nil:
		return nil
	case len(line.Lists) == 1 && line.Lists[0].File:
		if file := line.Lists[0].Words[0]; file != "-" {
			in.File = []string{file}
		}
		return nil
	}
	o.short.Rows, err = line.Rows(o.link, func(file string) ([]string, error) {
		texts := workflow.Input{Stdin: file == "-", Format: in.Format}
		if !texts.Stdin {
			texts.File = []string{file}
		}
		if in.Delimiter != "" {
			texts.Delimiter = rune(in.Delimiter[0])
		}
		return items.Texts(ctx, texts, items.Env{Stdin: os.Stdin})
	})
	if err != nil {
		return refusef("%w", err)
	}
	return nil
}

// runMap makes the workflow file of the flags and runs it, saves it or prints its commands. Problems of that file are
// reported as mistakes of the command line.
func runMap(ctx context.Context, con *console, o mapOptions) error {
	source, err := o.short.File()
	if err != nil {
		return refusef("%w", err)
	}
	purpose := settings.ToRun
	if o.dryRun || o.save != "" {
		purpose = settings.ToPlan
	}
	w, err := loadSource(ctx, "the command", source, o.checkedAs(), o.settings, purpose)
	if err != nil {
		return o.asRefusal(err)
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
	// So that a typing error is no failure of each item. Nothing is known of scripts, of programs that are named by the
	// items, and of what workers run.
	short := o.short
	name := short.Command[0]
	known := !short.IsScript() && short.Agent == "" && !o.fleet.wanted() && !strings.ContainsAny(name, "{$") &&
		(short.Replace == "" || !strings.Contains(name, short.Replace))
	if known && isMissing(name) {
		return refusef("%s: command not found", name)
	}
	if o.joblog != "" { // found out before anything runs
		file, err := os.OpenFile(o.joblog, os.O_CREATE|os.O_WRONLY, 0o666)
		if err != nil {
			return refusef("--joblog: %w", err)
		}
		check.Quietly(file.Close)
	}
	for _, found := range w.warnings {
		con.sayf("warning: %s", found.Message)
	}
	w.warnings = nil
	o.quiet = o.quiet || !con.live
	return o.asRefusal(o.start(ctx, con, w))
}

// isMissing reports whether a program is not on this machine.
func isMissing(name string) bool {
	_, err := exec.LookPath(name)
	return errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist)
}

// asRefusal returns err, in which the problems of the file that was made of the command line are problems of that.
func (o *mapOptions) asRefusal(err error) error {
	problems, ok := problemsOf(err)
	if !ok {
		return err
	}
	var texts []string
	for _, p := range problems {
		text := strings.TrimPrefix(p.Message, "limit: ") // the key of --rate
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return refusef("%s", strings.Join(texts, "\n"))
}

// saveAs writes the workflow file, and prints a command that runs it.
func (o *mapOptions) saveAs(con *console, source []byte) error {
	if o.save == "-" {
		_, err := con.out.Write(source)
		return err
	}
	file, err := os.OpenFile(o.save, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return refusef("%s already exists and is not overwritten: remove it, or choose another file", o.save)
	}
	if err != nil {
		return refusef("%w", err)
	}
	_, err = file.Write(source)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	line := fmt.Sprintf("prodigy run %s --%s", quoted(o.save), o.echo.mode())
	if o.keepOrder {
		line += " --keep-order"
	}
	if o.echo.tag {
		line += " --tag"
	}
	con.sayf("written; to run it: %s", line)
	return nil
}

// printCommands prints the command of each item.
func printCommands(ctx context.Context, out io.Writer, w checked) error {
	env := items.Env{
		Dir: w.dir, Environ: os.Environ(), Fill: w.settings.Fill, Stdin: os.Stdin,
		Secret: w.settings.Mask.Holds,
	}
	for it, err := range items.Select(ctx, w.Map, env) {
		if err != nil {
			return selectionError(fmt.Errorf("select items: %w", err))
		}
		command, err := job.Command(w.Workflow, w.dir, it)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, command); err != nil {
			return unlessClosed(err)
		}
	}
	return nil
}
