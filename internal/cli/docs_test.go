package cli

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"prodigy/internal/testenv/scripts"
	"prodigy/internal/workflow"
)

// blocksOf returns the fenced pieces of all documents in one language.
func blocksOf(t *testing.T, lang string) []scripts.Block {
	t.Helper()
	var all []scripts.Block
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/howto/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			for _, b := range scripts.Blocks(file, readFile(t, file)) {
				if b.Lang == lang {
					all = append(all, b)
				}
			}
		}
	}
	return all
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestEveryWorkflowInTheDocumentsIsValid(t *testing.T) {
	blocks := blocksOf(t, "yaml")
	if len(blocks) == 0 {
		t.Fatal("there is no yaml in the documents")
	}
	for _, b := range blocks {
		if b.Name != "" && !strings.HasSuffix(b.Name, ".yml") {
			continue // a file of another program
		}
		name := filepath.Base(b.File) + ":" + strconv.Itoa(b.Line)
		if _, err := workflow.Parse(name, []byte(b.Text), workflow.ParseOptions{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEveryCommandInTheDocumentsExists(t *testing.T) {
	makefile := readFile(t, "../../Makefile")
	for _, b := range blocksOf(t, "console") {
		if slices.Contains(scripts.Guides(t), b.File) {
			continue // they are run
		}
		for line := range strings.Lines(b.Text) {
			typed, isTyped := strings.CutPrefix(line, "$ ")
			if !isTyped {
				continue
			}
			typed, _, _ = strings.Cut(typed, "#")
			typed, _, _ = strings.Cut(typed, "|")
			typed, _, _ = strings.Cut(typed, ">")
			typed = strings.Replace(typed, "go run ./cmd/prodigy", "prodigy", 1)
			words := strings.Fields(strings.ReplaceAll(typed, "'", ""))
			switch words[0] {
			case "prodigy":
				tryParsing(t, b.File, words[1:])
			case "make":
				if !strings.Contains(makefile, "\n"+words[1]+":") {
					t.Errorf("%s: make knows no %s", b.File, words[1])
				}
			case "go":
				if _, err := os.Stat("../../" + strings.TrimSuffix(words[2], "...")); err != nil || words[1] != "run" && words[1] != "test" {
					t.Errorf("%s: %q runs nothing that there is", b.File, typed)
				}
			default:
				t.Errorf("%s: what is %q?", b.File, typed)
			}
		}
	}
}

// tryParsing parses a command line as prodigy would, and runs nothing.
func tryParsing(t *testing.T, file string, args []string) {
	t.Helper()
	root := newRootCommand(&console{out: io.Discard, err: io.Discard})
	cmd, rest, err := root.Find(args)
	if err != nil {
		t.Errorf("%s: prodigy %v: %v", file, args, err)
		return
	}
	if cmd.HasSubCommands() {
		t.Errorf("%s: prodigy %v: names no command that does something", file, args)
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Errorf("%s: prodigy %v: %v", file, args, err)
	} else if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		t.Errorf("%s: prodigy %v: %v", file, args, err)
	}
}

func TestEveryFlagInTheReadmeExists(t *testing.T) {
	root := newRootCommand(&console{out: io.Discard, err: io.Discard})
	for _, flag := range regexp.MustCompile(`--[a-z][a-z-]+`).FindAllString(readFile(t, "../../README.md"), -1) {
		if !hasFlag(root, strings.TrimPrefix(flag, "--")) {
			t.Errorf("README.md: no command has the flag %s", flag)
		}
	}
}

// hasFlag reports whether cmd or a command below it has a flag.
func hasFlag(cmd *cobra.Command, name string) bool {
	below := func(sub *cobra.Command) bool { return hasFlag(sub, name) }
	return cmd.Flag(name) != nil || slices.ContainsFunc(cmd.Commands(), below)
}

func TestExitCodesInTheDocumentsAreThoseOfTheTable(t *testing.T) {
	var got []string
	for _, r := range regexp.MustCompile(`(?m)^\| ([0-9]+(?:, [0-9]+)*) \|`).FindAllStringSubmatch(readFile(t, "../../docs/exit-codes.md"), -1) {
		got = append(got, strings.Split(r[1], ", ")...)
	}
	var want []string
	for _, code := range []int{exitOK, exitFailed, exitUsage, exitLeft, exitAsAsked, exitInterrupted, exitQuit, exitTerminated} {
		want = append(want, strconv.Itoa(code))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The README is one screen: what has more to say is a page in docs. Its agents are those of the example that its pictures show.
func TestReadmeIsShortAndShowsTheExample(t *testing.T) {
	text := readFile(t, "../../README.md")
	if n := len(strings.Fields(text)); n > 900 {
		t.Errorf("README.md has %d words, want 900 at most", n)
	}
	if !strings.Contains(text, "```yaml\n"+readFile(t, "../../examples/agents/workflow.yml")+"```\n") {
		t.Error("README.md does not show examples/agents/workflow.yml")
	}
}
