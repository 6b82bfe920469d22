package testenv

import (
	_ "embed"
	"strconv"
	"strings"
	"testing"
)

//go:embed json_cases.txt
var jsonCases string

// JSONCase is a document that is to be accepted, or not.
type JSONCase struct {
	Name  string
	JSON  string
	Valid bool
}

// JSONCases returns the cases of JSONTestSuite, for the tests of all that reads JSON. Of what RFC 8259 leaves open, numbers of any size and any nesting of 500 are valid, and what is not UTF-8,
// has half of a surrogate pair, or starts with a byte order mark is not: the readers of files pass over the mark before they read JSON.
func JSONCases(t testing.TB) []JSONCase {
	t.Helper()
	var all []JSONCase
	for line := range strings.Lines(jsonCases) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, quoted, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		times := 1
		if count, rest, ok := strings.Cut(quoted, " times "); ok {
			if n, err := strconv.Atoi(count); err == nil {
				times, quoted = n, rest
			}
		}
		text, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		valid := strings.HasPrefix(name, "y_") || strings.HasPrefix(name, "i_number_") || name == "i_structure_500_nested_arrays"
		all = append(all, JSONCase{Name: name, JSON: strings.Repeat(text, times), Valid: valid})
	}
	return all
}
