package cli

import (
	"regexp"
	"runtime"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"prodigy/internal/testenv/scripts"
)

// Each guide does what it says: what stands below a command is printed by it.
func TestGuidesDoWhatTheySay(t *testing.T) {
	if runtime.GOOS == "windows" || testing.Short() {
		t.Skip("the guides need a POSIX sh, and some time")
	}
	scripts.RunGuides(t)
}

// The examples for other programs are YAML, and what they call of prodigy is there.
func TestExamplesForOtherProgramsParse(t *testing.T) {
	found := map[string]bool{}
	for _, b := range blocksOf(t, "yaml") {
		if b.Name == "" || strings.Contains(b.Name, ".") {
			continue
		}
		found[b.Name] = true
		var tree any
		if err := yaml.Unmarshal([]byte(b.Text), &tree); err != nil {
			t.Errorf("%s:%d: %v", b.File, b.Line, err)
		}
		for _, call := range regexp.MustCompile(`(?m)(?:run|entry): prodigy (.*)$`).FindAllStringSubmatch(b.Text, -1) {
			args := strings.Fields(call[1])
			if b.Name == "pre-commit" {
				args = append(args, "file.prodigy.yml") // which pre-commit adds
			}
			tryParsing(t, b.File, args)
		}
		for _, call := range regexp.MustCompile(`(?m)command: \[prodigy\]\n +args: \[(.*)\]$`).FindAllStringSubmatch(b.Text, -1) {
			tryParsing(t, b.File, strings.Split(strings.ReplaceAll(call[1], `"`, ""), ", "))
		}
	}
	if !found["github"] || !found["pre-commit"] || !found["kubernetes"] || !found["kubernetes-broker"] || !found["keda"] {
		t.Errorf("found examples for %v only", found)
	}
}
