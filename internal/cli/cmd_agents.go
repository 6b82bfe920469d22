package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"prodigy/internal/ai"
	"prodigy/internal/duration"
	"prodigy/internal/jobs"
	"prodigy/internal/process"
	"prodigy/internal/term"
)

func newAgentsCommand(con *console) *cobra.Command {
	group := newGroup("agents", "Show the AI coding CLIs that prodigy knows, and how it reads them")
	group.Long = `Show the AI coding CLIs that prodigy knows, and how it reads them.

What is known of a CLI is a preset: how it is called, how its output is read, and rules that say what became of a run. ~/.prodigy/agents.yml changes
presets or adds some: see docs/agents.md.`
	group.AddCommand(newAgentsListCommand(con), newAgentsShowCommand(con), newAgentsCheckCommand(con),
		newAgentsTestCommand(con))
	return group
}

// agentsFile is the file in PRODIGY_HOME that changes presets.
const agentsFile = "agents.yml"

// presets returns the presets of this user.
func presets() (ai.Set, error) {
	home, err := jobs.FromEnv()
	if err != nil {
		return nil, err
	}
	layers, err := homePresets(home)
	if err != nil {
		return nil, err
	}
	set, err := ai.Load(layers...)
	if err != nil {
		return nil, refusef("%w", err)
	}
	return set, nil
}

// homePresets returns the changes to presets that are in PRODIGY_HOME.
func homePresets(home jobs.Home) ([]ai.Layer, error) {
	path := filepath.Join(home.Root, agentsFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the presets of agents: %w", err)
	}
	layer, err := ai.ReadLayer(path, data)
	if err != nil {
		return nil, refusef("%w", err)
	}
	return []ai.Layer{layer}, nil
}

// preset returns the preset with that name.
func preset(name string) (*ai.Preset, error) {
	set, err := presets()
	if err != nil {
		return nil, err
	}
	p, err := set.Find(name)
	if err != nil {
		return nil, refusef("%w", err)
	}
	return p, nil
}

func completePreset(_ *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	set, err := presets()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return set.Names(), cobra.ShellCompDirectiveNoFileComp
}

func newAgentsListCommand(con *console) *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the presets", Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			set, err := presets()
			if err != nil {
				return err
			}
			_, err = printRows(con, term.Human, []term.Column[string]{
				{Head: "NAME", Cell: func(name string) string { return name }},
				{Head: "COMMAND", Cell: func(name string) string { return set[name].Argv[0] }},
				{Head: "TESTED WITH", Cell: func(name string) string { return cmp.Or(set[name].Tested, "-") }},
				{Head: "RULES", Cell: func(name string) string { return strconv.Itoa(len(set[name].Rules)) }},
			}, term.Each(set.Names()))
			return err
		},
	}
}

func newAgentsShowCommand(con *console) *cobra.Command {
	return &cobra.Command{
		Use: "show <agent>", Short: "Print a preset as YAML", Args: exactly("agent"), ValidArgsFunction: completePreset,
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := preset(args[0])
			if err != nil {
				return err
			}
			var b bytes.Buffer
			enc := yaml.NewEncoder(&b)
			enc.SetIndent(2)
			if err := enc.Encode(map[string]*ai.Preset{p.Name: p}); err != nil {
				return err
			}
			_, err = con.text().Write(b.Bytes())
			return err
		},
	}
}

func newAgentsCheckCommand(con *console) *cobra.Command {
	return &cobra.Command{
		Use:   "check [agent]",
		Short: "Find the CLIs on this machine, and their versions",
		Long: `Find the CLIs on this machine and ask for their versions, without a request to a model. With another version than those a preset was tested with,
'prodigy agents test' says whether the rules still fit: record an output and see.

The exit code is 1 if the CLI that is named is not there, or none of them is.`,
		Args: atMostOne, ValidArgsFunction: completePreset,
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := presets()
			if err != nil {
				return err
			}
			names := set.Names()
			if len(args) > 0 {
				if _, err := set.Find(args[0]); err != nil {
					return refusef("%w", err)
				}
				names = args
			}
			list := installedCLIs(cmd.Context(), set, names)
			_, err = printRows(con, term.Human, []term.Column[installedCLI]{
				{Head: "NAME", Cell: func(c installedCLI) string { return c.preset.Name }},
				{Head: "PROGRAM", Cell: func(c installedCLI) string {
					return cmp.Or(c.path,
						"not found: "+c.preset.Argv[0])
				}},
				{Head: "VERSION", Cell: func(c installedCLI) string { return cmp.Or(c.version, "-") }},
				{Head: "TESTED WITH", Cell: func(c installedCLI) string { return cmp.Or(c.preset.Tested, "-") }},
				{Head: "PROMPT", Cell: func(c installedCLI) string { return c.preset.Prompt.String() }},
			}, term.Each(list))
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(list, func(c installedCLI) bool { return c.path != "" }) {
				return status(exitFailed)
			}
			return nil
		},
	}
}

// installedCLI is a CLI as it is on this machine. Without a path it is not there.
type installedCLI struct {
	preset        *ai.Preset
	path, version string
}

// installedCLIs finds the CLIs of presets, and asks all of them at once for their versions.
func installedCLIs(ctx context.Context, set ai.Set, names []string) []installedCLI {
	list := make([]installedCLI, len(names))
	var asked sync.WaitGroup
	for i, name := range names {
		c := &list[i]
		c.preset = set[name]
		path, err := exec.LookPath(c.preset.Argv[0])
		if err != nil {
			continue
		}
		c.path = path
		asked.Go(func() { c.version = versionOf(ctx, path, versionPatience) })
	}
	asked.Wait()
	return list
}

// versionPatience is how long a CLI may take to say its version. The slowest needs five seconds on a slow machine.
const versionPatience = 10 * time.Second

// versionOf returns what a program prints for --version, if it does so within patience. Nothing of it is left
// afterwards.
func versionOf(ctx context.Context, path string, patience time.Duration) string {
	var out process.Capture
	exit, err := process.Run(ctx, process.Command{
		Argv: []string{path, "--version"}, Stdout: &out, Timeout: patience,
		Grace: time.Second, EndAll: true,
	})
	line, _, _ := strings.Cut(strings.TrimSpace(out.Text()), "\n")
	switch {
	case exit.TimedOut:
		return "no answer in " + duration.Format(patience)
	case err != nil || exit.Start != nil || exit.Code != 0 || line == "":
		return "unknown"
	}
	return line
}

type agentsTestOptions struct {
	use         string
	stderr      string
	exit        int
	signal      string
	allowDenied bool
	allowEmpty  bool
	format      term.Format
}

func newAgentsTestCommand(con *console) *cobra.Command {
	var o agentsTestOptions
	cmd := &cobra.Command{
		Use:   "test <file>...",
		Short: "Say what recorded outputs mean, and which rule decides",
		Long: `Say what recorded outputs mean, and which rule decides. Nothing is run.

A file holds the stdout of a CLI, which --use names, or a JSON object with the keys cli, stdout, stderr and exit (below 0: minus a signal). With the
key want, an outcome or a list of them, the exit code is 1 when the outcome is none of those.`,
		Example: "  prodigy agents test out.jsonl --use claude --exit 1\n  prodigy agents test recorded/*.json",
		Args:    atLeastOne("file"),
		RunE:    func(_ *cobra.Command, args []string) error { return runAgentsTest(con, o, args) },
	}
	f := cmd.Flags()
	f.StringVar(&o.use, "use", "", "the `preset` to read with; default the cli that the file names")
	_ = cmd.RegisterFlagCompletionFunc("use", completePreset)
	f.IntVar(&o.exit, "exit", 0, "the exit `code` of the CLI")
	f.StringVar(&o.signal, "signal", "", "the `signal` that ended it, such as SIGTERM")
	f.StringVar(&o.stderr, "stderr", "", "a `file` with what it printed to stderr")
	f.BoolVar(&o.allowDenied, "allow-denied", false, "as with allow_denied: true in the step")
	f.BoolVar(&o.allowEmpty, "allow-empty", false, "as with allow_empty: true in the step")
	addFormat(cmd, &o.format, term.JSON)
	return cmd
}

func runAgentsTest(con *console, o agentsTestOptions, files []string) error {
	set, err := presets()
	if err != nil {
		return err
	}
	all := make([]ai.Judgement, 0, len(files))
	wrong := 0
	for _, file := range files {
		v, err := o.test(set, file)
		if err != nil {
			return err
		}
		if v.Wrong() {
			wrong++
		}
		all = append(all, v)
	}
	if o.format == term.JSON {
		err = term.PrintJSON(con.out, all)
	} else {
		printVerdicts(con, all)
	}
	if err == nil && wrong > 0 {
		err = status(exitFailed)
	}
	return err
}

func printVerdicts(con *console, all []ai.Judgement) {
	for _, v := range all {
		rule := "no rule of " + v.Agent + " fits"
		if v.Rule != "" {
			rule = "rule " + v.Rule + " of " + v.Agent
		}
		says := v.Message
		if says == "" {
			says, _, _ = strings.Cut(v.Text, "\n")
		}
		con.lines().Printf("%s: %s, %s: %s", term.Visible(v.File), v.Outcome, term.Visible(rule),
			term.Visible(says))
		if v.ResetAt != nil {
			con.lines().Printf("  resets at %s (from a %s) %s", v.ResetAt.UTC().Format(time.RFC3339),
				v.ResetBy, term.Visible(v.Scope))
		}
		if v.Wrong() {
			con.lines().Printf("  wanted: %v", v.Want)
		}
	}
}

func (o agentsTestOptions) test(set ai.Set, file string) (ai.Judgement, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return ai.Judgement{}, refusef("%w", err)
	}
	r := ai.ReadRecording(data, o.exit)
	if o.stderr != "" {
		printed, err := os.ReadFile(o.stderr)
		if err != nil {
			return ai.Judgement{}, refusef("%w", err)
		}
		r.Stderr = string(printed)
	}
	end := ai.End{Signal: o.signal, Now: time.Now(), AllowDenied: o.allowDenied, AllowEmpty: o.allowEmpty}
	j, err := set.Judge(r, o.use, end)
	if errors.Is(err, ai.ErrUnnamed) {
		return j, usagef("%s: %w Name it with --use", file, err)
	}
	if err != nil {
		return j, refusef("%s: %w", file, err)
	}
	j.File = file
	return j, nil
}
