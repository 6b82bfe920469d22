package scripts

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// Guides returns the documents that can be followed from top to bottom: their files are written, their commands run.
func Guides(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob("../../docs/howto/*.md")
	if err != nil || len(list) == 0 {
		t.Fatalf("there are no guides: %v", err)
	}
	return append(list, "../../docs/tutorial.md")
}

// RunGuides follows the guides. What stands below a command must be printed by it.
func RunGuides(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for _, guide := range Guides(t) {
		text, err := os.ReadFile(guide)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(guide), ".md") + ".txtar"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(scriptOf(Blocks(guide, string(text)))), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	Run(t, testscript.Params{Dir: dir})
}

// Block is a fenced piece of a document. Behind its language may stand the name of the file that it is.
type Block struct {
	File, Lang, Name, Text string
	Line                   int
}

// Blocks returns the fenced pieces of the text of a document.
func Blocks(file, text string) []Block {
	var all []Block
	var open *Block
	n := 0
	for line := range strings.Lines(text) {
		n++
		mark, isMark := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isMark && open != nil:
			all = append(all, *open)
			open = nil
		case isMark:
			lang, name, _ := strings.Cut(mark, " ")
			open = &Block{File: file, Lang: lang, Name: name, Line: n + 1}
		case open != nil:
			open.Text += line
		}
	}
	return all
}

// scriptOf turns the blocks of a guide into a script.
func scriptOf(blocks []Block) string {
	var steps, files strings.Builder
	for i, b := range blocks {
		switch {
		case b.Lang == "console":
			for j, c := range commands(b.Text) {
				script := fmt.Sprintf("command-%d-%d.sh", i, j)
				fmt.Fprintf(&files, "-- %s --\n%s\n", script, c.typed)
				// A new file, since what an earlier command has left in the background prints to the one before.
				fmt.Fprintf(&steps, "exec sh -c 'rm -f printed; sh %s >printed 2>&1; true'\n", script)
				for _, line := range c.prints {
					fmt.Fprintf(&steps, "grep '%s' printed\n", strings.ReplaceAll(regexp.QuoteMeta(line), "'", "''"))
				}
			}
		case strings.Contains(b.Name, "."):
			fmt.Fprintf(&files, "-- file-%d --\n%s", i, b.Text)
			if dir := path.Dir(b.Name); dir != "." {
				fmt.Fprintf(&steps, "mkdir %s\n", dir)
			}
			fmt.Fprintf(&steps, "cp file-%d %s\n", i, b.Name)
		}
	}
	return steps.String() + files.String()
}

// command is a line that is typed, and what it prints among other things.
type command struct {
	typed  string
	prints []string
}

func commands(text string) []command {
	var list []command
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if typed, ok := strings.CutPrefix(line, "$ "); ok {
			list = append(list, command{typed: typed})
		} else if line != "" {
			list[len(list)-1].prints = append(list[len(list)-1].prints, line)
		}
	}
	return list
}
