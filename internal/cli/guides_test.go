package cli

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"gopkg.in/yaml.v3"
)

// guides are the documents that can be followed from top to bottom: their files are written, their commands run.
func guides(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob("../../docs/howto/*.md")
	if err != nil || len(list) == 0 {
		t.Fatalf("there are no guides: %v", err)
	}
	return append(list, "../../docs/tutorial.md")
}

// Each guide does what it says: what stands below a command is printed by it.
func TestGuidesDoWhatTheySay(t *testing.T) {
	if runtime.GOOS == "windows" || testing.Short() {
		t.Skip("the guides need a POSIX sh, and some time")
	}
	dir := t.TempDir()
	for _, guide := range guides(t) {
		name := strings.TrimSuffix(filepath.Base(guide), ".md") + ".txtar"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(scriptOf(fenced(guide, readFile(t, guide)))), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	testscript.Run(t, testscript.Params{Dir: dir, Setup: func(env *testscript.Env) error {
		env.Setenv("PRODIGY_HOME", filepath.Join(env.WorkDir, "home"))
		return nil
	}})
}

// scriptOf turns the blocks of a guide into a script.
func scriptOf(blocks []block) string {
	var steps, files strings.Builder
	for i, b := range blocks {
		switch {
		case b.lang == "console":
			for j, c := range commands(b.text) {
				script := fmt.Sprintf("command-%d-%d.sh", i, j)
				fmt.Fprintf(&files, "-- %s --\n%s\n", script, c.typed)
				fmt.Fprintf(&steps, "exec sh -c 'sh %s >printed 2>&1; true'\n", script)
				for _, line := range c.prints {
					fmt.Fprintf(&steps, "grep '%s' printed\n", strings.ReplaceAll(regexp.QuoteMeta(line), "'", "''"))
				}
			}
		case strings.Contains(b.name, "."):
			fmt.Fprintf(&files, "-- file-%d --\n%s", i, b.text)
			if dir := path.Dir(b.name); dir != "." {
				fmt.Fprintf(&steps, "mkdir %s\n", dir)
			}
			fmt.Fprintf(&steps, "cp file-%d %s\n", i, b.name)
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

// The examples for other programs are YAML, and what they call of prodigy is there.
func TestExamplesForOtherProgramsParse(t *testing.T) {
	found := map[string]bool{}
	for _, b := range blocksOf(t, "yaml") {
		if b.name == "" || strings.Contains(b.name, ".") {
			continue
		}
		found[b.name] = true
		var tree any
		if err := yaml.Unmarshal([]byte(b.text), &tree); err != nil {
			t.Errorf("%s:%d: %v", b.file, b.line, err)
		}
		for _, call := range regexp.MustCompile(`(?m)(?:run|entry): prodigy (.*)$`).FindAllStringSubmatch(b.text, -1) {
			args := strings.Fields(call[1])
			if b.name == "pre-commit" {
				args = append(args, "file.prodigy.yml") // which pre-commit adds
			}
			tryParsing(t, b.file, args)
		}
		for _, call := range regexp.MustCompile(`(?m)command: \[prodigy\]\n +args: \[(.*)\]$`).FindAllStringSubmatch(b.text, -1) {
			tryParsing(t, b.file, strings.Split(strings.ReplaceAll(call[1], `"`, ""), ", "))
		}
	}
	if !found["github"] || !found["pre-commit"] || !found["kubernetes"] || !found["kubernetes-broker"] || !found["keda"] {
		t.Errorf("found examples for %v only", found)
	}
}
