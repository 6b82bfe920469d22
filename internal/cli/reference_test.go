package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"prodigy/internal/term"
)

// commandsOf returns the commands below root that are for people, in the order of the help.
func commandsOf(root *cobra.Command) []*cobra.Command {
	var list []*cobra.Command
	for _, cmd := range root.Commands() {
		switch {
		case cmd.Hidden || cmd.Name() == "help":
		case cmd.Name() == "completion": // its commands say the same for each shell
			list = append(list, cmd)
		default:
			list = append(append(list, cmd), commandsOf(cmd)...)
		}
	}
	return list
}

// documented returns the command tree as it is documented: without what the environment of the test says.
func documented(t *testing.T) *cobra.Command {
	t.Helper()
	root := newRootCommand(&console{format: term.Human})
	root.InitDefaultCompletionCmd()
	root.DisableAutoGenTag = true
	return root
}

// reference is docs/commands.md.
func reference(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# Commands\n\nMade from the program by `make generate`. Each command also prints this with `--help`. See also the [exit codes](exit-codes.md).\n")
	for _, cmd := range commandsOf(root) {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n```\n%s\n```\n", cmd.CommandPath(), sentence(cmd), cmd.UseLine())
		if cmd.Example != "" {
			fmt.Fprintf(&b, "\n```console\n%s\n```\n", strings.ReplaceAll("\n"+cmd.Example, "\n  ", "\n$ ")[1:])
		}
		for _, g := range groupsOf(cmd) {
			var rows []string
			g.flags.VisitAll(func(f *pflag.Flag) {
				if f.Name != "help" {
					rows = append(rows, row(f))
				}
			})
			if len(rows) > 0 {
				fmt.Fprintf(&b, "\n| %s | meaning |\n| --- | --- |\n%s", strings.ToLower(g.Title), strings.Join(rows, ""))
			}
		}
	}
	return b.String()
}

func sentence(cmd *cobra.Command) string {
	if cmd.Long != "" {
		return cmd.Long
	}
	return cmd.Short + "."
}

func row(f *pflag.Flag) string {
	name := "`--" + f.Name + "`"
	if f.Shorthand != "" {
		name = "`-" + f.Shorthand + "`, " + name
	}
	usage := strings.ReplaceAll(f.Usage, "|", "\\|")
	if !slices.Contains([]string{"", "false", "0", "[]"}, f.DefValue) {
		usage += " (" + f.DefValue + ")"
	}
	return fmt.Sprintf("| %s | %s |\n", name, usage)
}

func TestReferenceIsNotStale(t *testing.T) {
	compareFile(t, "../../docs/commands.md", []byte(reference(documented(t))))
}

func TestGroupsOfFlagsNameFlags(t *testing.T) {
	known := map[string]int{}
	for _, cmd := range commandsOf(documented(t)) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known[f.Name] = 0 })
	}
	for _, g := range flagGroups {
		for name := range strings.FieldsSeq(g.names) {
			n, is := known[name]
			if known[name]++; !is || n > 0 {
				t.Errorf("%s: %q is no flag, or is in two groups", g.Title, name)
			}
		}
	}
}

func compareFile(t *testing.T, path string, want []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := differing(string(want), string(got)); diff != "" {
		t.Errorf("%s is stale: go test ./internal/cli -run Reference -update rewrites it: %s", path, diff)
	}
}

// differing returns the first line in which two texts differ, or "" if they are equal. The scripts start this test binary as
// prodigy some thousand times, and go-cmp would take half a millisecond of each start.
func differing(want, got string) string {
	if want == got {
		return ""
	}
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	n := 0
	for n < min(len(w), len(g))-1 && w[n] == g[n] {
		n++
	}
	return fmt.Sprintf("line %d:\n got %s\nwant %s", n+1, g[n], w[n])
}

// Every command is run by some script, so that none is added without a test of what a user would type.
func TestEveryCommandHasAScript(t *testing.T) {
	var scripts strings.Builder
	for _, pattern := range []string{"../../testdata/script/*.txtar", "../../testdata/script/*/*.txtar"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			scripts.WriteString(readFile(t, file))
		}
	}
	text := scripts.String()
	for _, cmd := range commandsOf(documented(t)) {
		path := regexp.MustCompile(regexp.QuoteMeta(cmd.CommandPath()) + `\b`)
		if !cmd.HasSubCommands() && !path.MatchString(text) {
			t.Errorf("no script in testdata/script runs %q", cmd.CommandPath())
		}
	}
}
