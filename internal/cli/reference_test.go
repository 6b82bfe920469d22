package cli

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

var manDir = flag.String("man", "", "directory to write the manual pages to")

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
	root := newRootCommand(&console{})
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
		var rows []string
		cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" {
				rows = append(rows, row(f))
			}
		})
		if len(rows) > 0 {
			fmt.Fprintf(&b, "\n| flag | meaning |\n| --- | --- |\n%s", strings.Join(rows, ""))
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

// manPages returns the manual pages by file name. Their date is fixed, so that they change only with the program.
func manPages(t *testing.T, root *cobra.Command) map[string][]byte {
	t.Helper()
	date := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	pages := map[string][]byte{}
	for _, cmd := range append([]*cobra.Command{root}, commandsOf(root)...) {
		escapeMarkdown(cmd)
		var b bytes.Buffer
		title := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
		header := doc.GenManHeader{Title: strings.ToUpper(title), Section: "1", Date: &date, Source: "prodigy", Manual: "prodigy"}
		if err := doc.GenMan(cmd, &header, &b); err != nil {
			t.Fatal(err)
		}
		pages[title+".1"] = b.Bytes()
	}
	return pages
}

// escapeMarkdown escapes what the generator of manual pages would take for HTML and leave out, such as <workflow>. It puts the examples into a
// block of code, where nothing is special.
func escapeMarkdown(cmd *cobra.Command) {
	escape := strings.NewReplacer("<", "\\<", "*", "\\*").Replace
	cmd.Use, cmd.Short, cmd.Long = escape(cmd.Use), escape(cmd.Short), escape(cmd.Long)
	cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = escape(f.Usage) })
}

// textsOf returns what the manual page of a command is made of, except examples.
func textsOf(cmd *cobra.Command) string {
	texts := cmd.Use + "\n" + cmd.Short + "\n" + cmd.Long
	cmd.Flags().VisitAll(func(f *pflag.Flag) { texts += "\n" + f.Usage })
	return texts
}

func TestReferenceIsNotStale(t *testing.T) {
	compareFile(t, "../../docs/commands.md", []byte(reference(documented(t))))
}

// Every command has a manual page; make man writes them.
func TestManualPages(t *testing.T) {
	dir := *manDir
	if dir == "" {
		dir = t.TempDir()
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	angled, found := map[string][]string{}, 0
	for _, cmd := range commandsOf(documented(t)) {
		words := regexp.MustCompile(`<[^<>\n]*>`).FindAllString(textsOf(cmd), -1)
		angled[strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"] = words
		found += len(words)
	}
	if found < 5 {
		t.Errorf("found %d words in angle brackets, which cannot be all", found)
	}
	for name, page := range manPages(t, documented(t)) {
		for _, word := range angled[name] {
			if !bytes.Contains(page, []byte(word)) {
				t.Errorf("%s lacks %s", name, word)
			}
		}
		for _, part := range []string{".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION"} {
			if !bytes.Contains(page, []byte(part)) {
				t.Errorf("%s has no %s", name, part)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, name), page, 0o644); err != nil {
			t.Fatal(err)
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
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is stale: go test ./internal/cli -run Reference -update rewrites it (-want +got):\n%s", path, diff)
	}
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
