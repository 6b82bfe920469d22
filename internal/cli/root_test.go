package cli

import (
	"testing"

	"github.com/spf13/cobra"
)

// A command is the same whether the others are made or not.
func TestCommandMadeAloneIsThatOfTheWholeTree(t *testing.T) {
	for _, c := range firstLevel {
		whole, alone := newRootCommand(&console{}), newRootCommandFor(&console{}, []string{c.name, "--help"})
		if n := len(alone.Commands()); n != 1 {
			t.Errorf("%s: got %d commands, want it alone", c.name, n)
		}
		if diff := differing(helpOf(t, whole, c.name), helpOf(t, alone, c.name)); diff != "" {
			t.Errorf("%s alone, and in the whole tree: %s", c.name, diff)
		}
	}
}

// What is no command of the first level is looked for in the whole tree.
func TestWholeTreeIsMadeWhenNoCommandComesFirst(t *testing.T) {
	for _, args := range [][]string{nil, {"--no-color", "version"}, {"help", "run"}, {"completion"}, {cobra.ShellCompRequestCmd, "run", ""}, {"verison"}} {
		if got := len(newRootCommandFor(&console{}, args).Commands()); got != len(firstLevel)+2 {
			t.Errorf("%q: got %d commands, want %d: those, completion and help", args, got, len(firstLevel)+2)
		}
	}
}

func helpOf(t *testing.T, root *cobra.Command, name string) string {
	t.Helper()
	cmd, _, err := root.Find([]string{name})
	if err != nil || cmd.Name() != name {
		t.Fatalf("got %q, %v, want the command %s", cmd.Name(), err, name)
	}
	return cmd.Long + cmd.Example + cmd.UsageString()
}
