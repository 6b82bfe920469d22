package workflow

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// migrating returns the rows of docs/migrating.md as their cells.
func migrating(t *testing.T) [][]string {
	t.Helper()
	data, err := os.ReadFile("../../docs/migrating.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "| `") {
			rows = append(rows, strings.Split(strings.Trim(line, "| "), " | "))
		}
	}
	if len(rows) < 35 {
		t.Fatalf("got %d rows, want the tables", len(rows))
	}
	return rows
}

var inlineCode = regexp.MustCompile("^`([^`]+)`")

// What stands first in a row of the first table runs; in the second table it is refused, and what stands behind it runs.
func TestEveryRowOfTheMigrationIsTrue(t *testing.T) {
	for _, row := range migrating(t) {
		older := inlineCode.FindStringSubmatch(row[0])
		if older == nil {
			t.Errorf("%v has no code", row)
			continue
		}
		_, err := Parse("w.yml", []byte(older[1]), ParseOptions{})
		instead := inlineCode.FindStringSubmatch(strings.Join(row[1:], " "))
		rewritten := instead != nil && (strings.HasPrefix(instead[1], "- ") || strings.HasPrefix(instead[1], "{") || strings.Contains(instead[1], ": "))
		if !rewritten {
			if err != nil {
				t.Errorf("%s does not run: %v", older[1], err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%s runs, and the row says that it does not", older[1])
		}
		if _, err := Parse("w.yml", []byte(instead[1]), ParseOptions{}); err != nil {
			t.Errorf("%s does not run: %v", instead[1], err)
		}
	}
}

func TestEveryRetiredKeyIsInTheMigration(t *testing.T) {
	var text strings.Builder
	for _, row := range migrating(t) {
		text.WriteString(row[0] + "\n")
	}
	for row := range strings.Lines(removedKeys[1:]) {
		block, rest, _ := strings.Cut(row, " | ")
		key, instead, _ := strings.Cut(rest, " | ")
		if instead == "" || !strings.Contains(text.String(), key+":") {
			t.Errorf("docs/migrating.md does not say what is written instead of %q in %s", key, block)
		}
	}
}
