package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
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

// newAgentsCommand returns the group that shows presets, and what they make of the output of a CLI.
func newAgentsCommand(con *console) *cobra.Command {
	group := newGroup("agents", "Show agent presets")
	group.Long = `Show agent presets.

A preset describes one AI CLI: how to call it, how to parse its output, and rules that classify each
run. Presets in ~/.prodigy/agents.yml override or extend the built-in ones; see docs/agents.md.`
	group.AddCommand(newAgentsListCommand(con), newAgentsShowCommand(con), newAgentsCheckCommand(con),
		newAgentsTestCommand(con))
	return group
}

// userPresets returns the presets of this user.
func userPresets() (ai.Set, error) {
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

// presets returns the presets with these names, or all of them.
func presets(names ...string) ([]*ai.Preset, error) {
	set, err := userPresets()
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		names = set.Names()
	}
	var list []*ai.Preset
	for _, name := range names {
		p, err := set.Find(name)
		if err != nil {
			return nil, refusef("%w", err)
		}
		list = append(list, p)
	}
	return list, nil
}

// presetNames returns the names of all presets, those of agents.yml included.
func presetNames([]string) []string {
	set, _ := userPresets()
	return set.Names()
}

// newAgentsListCommand returns the command that prints one line for each preset. "Tested with" is the version of the
// CLI whose outputs are recorded in its tests.
func newAgentsListCommand(con *console) *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List agent presets", Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			list, err := presets()
			if err != nil {
				return err
			}
			return printRows(con, []term.Column[*ai.Preset]{
				{Head: "NAME", Cell: func(p *ai.Preset) string { return p.Name }},
				{Head: "COMMAND", Cell: func(p *ai.Preset) string { return p.Argv[0] }},
				{Head: "TESTED WITH", Value: func(p *ai.Preset) any { return p.Tested }},
				{Head: "RULES", Value: func(p *ai.Preset) any { return len(p.Rules) }},
			}, term.Each(list))
		},
	}
}

// newAgentsShowCommand returns the command that prints a preset as it could stand in agents.yml, with what that file
// changed.
func newAgentsShowCommand(con *console) *cobra.Command {
	return &cobra.Command{
		Use: "show <agent>", Short: "Print an agent preset as YAML", Args: exactly("agent"),
		ValidArgsFunction: offering(presetNames),
		RunE: func(_ *cobra.Command, args []string) error {
			list, err := presets(args...)
			if err != nil {
				return err
			}
			enc := yaml.NewEncoder(con.text())
			enc.SetIndent(2)
			return enc.Encode(map[string]*ai.Preset{list[0].Name: list[0]})
		},
	}
}

// newAgentsCheckCommand returns the command that looks for the programs of presets. It starts each with --version, at
// the same time, and exits with 1 if it finds none of those asked for.
func newAgentsCheckCommand(con *console) *cobra.Command {
	return &cobra.Command{
		Use:   "check [agent]",
		Short: "Show which AI CLIs are installed, and their versions",
		Long: `Look for each CLI on PATH and print what it says for --version. No model is called. If a
version differs from the tested ones, record some output and check it with 'prodigy agents test'.

The exit code is 1 if the named CLI, or every CLI, is missing.`,
		Args: atMost(1), ValidArgsFunction: offering(presetNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := presets(args...)
			if err != nil {
				return err
			}
			clis := installedCLIs(cmd.Context(), list)
			err = printRows(con, []term.Column[installedCLI]{
				{Head: "NAME", Cell: func(c installedCLI) string { return c.Name }},
				{Head: "PROGRAM", Cell: func(c installedCLI) string { return cmp.Or(c.path, "not found: "+c.Argv[0]) }},
				{Head: "VERSION", Value: func(c installedCLI) any { return c.version }},
				{Head: "TESTED WITH", Value: func(c installedCLI) any { return c.Tested }},
				{Head: "PROMPT", Value: func(c installedCLI) any { return c.Prompt }},
			}, term.Each(clis))
			if err == nil && !slices.ContainsFunc(clis, func(c installedCLI) bool { return c.path != "" }) {
				err = status(exitFailed)
			}
			return err
		},
	}
}

// installedCLI is a CLI as it is on this machine. Without a path it is not there.
type installedCLI struct {
	*ai.Preset
	path, version string
}

// installedCLIs finds the CLIs of presets, and asks all of them at once for their versions.
func installedCLIs(ctx context.Context, list []*ai.Preset) []installedCLI {
	clis := make([]installedCLI, len(list))
	var asked sync.WaitGroup
	for i, p := range list {
		c := &clis[i]
		c.Preset = p
		path, err := exec.LookPath(p.Argv[0])
		if err != nil {
			continue
		}
		c.path = path
		asked.Go(func() { c.version = versionOf(ctx, path, versionPatience) })
	}
	asked.Wait()
	return clis
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
		return "no response in " + duration.Format(patience)
	case err != nil || exit.Start != nil || exit.Code != 0 || line == "" || line[0] == '{':
		return "unknown"
	}
	return line
}

// agentsTestOptions say how a recorded run of a CLI ended, where the recording does not.
type agentsTestOptions struct {
	// use is the preset. Empty leaves that to the key cli of the file.
	use string
	// stderr is the path of a file.
	stderr string
	ai.End
}

// newAgentsTestCommand returns the command that judges recordings as a run would. Contributors of rules use it, and
// users whose CLI prints something new.
func newAgentsTestCommand(con *console) *cobra.Command {
	var o agentsTestOptions
	cmd := &cobra.Command{
		Use:   "test <file>...",
		Short: "Classify recorded output, and show the matching rule",
		Long: `Classify recorded output, and show the matching rule. No CLI is run.

Each file contains the stdout of a CLI (set with --use), or a JSON object with the keys cli, stdout,
stderr and exit (negative for a signal). With the key want (an outcome or a list), the exit code is
1 if the outcome differs.`,
		Example: "  prodigy agents test out.jsonl --use claude --exit 1\n  prodigy agents test recorded/*.json",
		Args:    atLeastOne("file"),
	}
	onArgs(con, cmd, o.run)
	addFlag(cmd, &o.use, "use", "`preset` to use (default: the file's cli key)", offering(presetNames))
	cmd.Flags().IntVar(&o.ExitCode, "exit", 0, "`code` the CLI exited with")
	addFlag(cmd, &o.Signal, "signal", "`signal` that killed the CLI, such as SIGTERM")
	formerly(cmd, map[string]string{"stderr": "stderr-file"})
	addFlag(cmd, &o.stderr, "stderr-file", "`file` with its stderr")
	addFlag(cmd, &o.AllowDenied, "allow-denied", "same as allow_denied: true in the step")
	addFlag(cmd, &o.AllowEmpty, "allow-empty", "same as allow_empty: true in the step")
	addFormat(con, cmd, term.JSON)
	return cmd
}

// run judges all files before it prints anything, so that a file that cannot be read is an error alone. It exits with 1
// if a file wants another outcome than it gets.
func (o *agentsTestOptions) run(_ context.Context, con *console, files []string) error {
	set, err := userPresets()
	if err != nil {
		return err
	}
	all := make([]ai.Judgement, len(files))
	for i, file := range files {
		if all[i], err = o.test(set, file); err != nil {
			return err
		}
	}
	err = con.print(all, func(l term.Lines) {
		for _, j := range all {
			printVerdict(l, j)
		}
	})
	if err == nil && slices.ContainsFunc(all, ai.Judgement.Wrong) {
		err = status(exitFailed)
	}
	return err
}

// printVerdict prints the outcome of a recording, the rule that gave it, and for a spent plan when that resets.
func printVerdict(l term.Lines, v ai.Judgement) {
	rule := "no rule of " + v.Agent + " fits"
	if v.Rule != "" {
		rule = "rule " + v.Rule + " of " + v.Agent
	}
	says, _, _ := strings.Cut(v.Text, "\n")
	l.Print(term.Visible(fmt.Sprintf("%s: %s, %s: %s", v.File, v.Outcome, rule, cmp.Or(v.Message, says))))
	if !v.Reset.IsZero() {
		l.Printf("  resets at %s (from a %s) %s", v.Reset.UTC().Format(time.RFC3339), v.ResetBy,
			term.Visible(v.Scope))
	}
	if v.Wrong() {
		l.Printf("  wanted: %v", v.Want)
	}
}

// test judges one file. A file without the name of its CLI needs --use.
func (o *agentsTestOptions) test(set ai.Set, file string) (ai.Judgement, error) {
	data, err := readNamed(file)
	if err != nil {
		return ai.Judgement{}, err
	}
	r := ai.ReadRecording(data, o.ExitCode)
	if o.stderr != "" {
		printed, err := readNamed(o.stderr)
		if err != nil {
			return ai.Judgement{}, err
		}
		r.Stderr = string(printed)
	}
	o.Now = time.Now()
	j, err := set.Judge(r, o.use, o.End)
	j.File = file
	switch {
	case errors.Is(err, ai.ErrUnnamed):
		err = usagef("%s: %w Name it with --use", file, err)
	case err != nil:
		err = refusef("%s: %w", file, err)
	}
	return j, err
}
