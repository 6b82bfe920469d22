package items

import (
	"fmt"
	"strings"
	"testing"

	"prodigy/internal/workflow"
)

// In data that is all text, what compares a field with a number or a truth value is told with its place, and what to write instead.
func TestAFilterOfTextsIsToldWhereItWantsNumbers(t *testing.T) {
	tests := []struct {
		filter string
		want   string // of each warning "written | every or no | instead | byte of the place"
	}{
		{`age > 30`, "age > 30 | no | number(age) > 30 | 0"},
		{`age>=-30.5`, "age>=-30.5 | no | number(age) >= -30.5 | 0"},
		{`name == 'x' && (30 < item.age || age != 7)`, "30 < item.age | no | 30 < number(item.age) | 16; age != 7 | every | number(age) != 7 | 33"},
		{`active == true`, `active == true | no | active == "true" | 0`},
		{`!(zip in [1, 2])`, "zip in [1, 2] | no | number(zip) in [1, 2] | 2"},
		{`number(age) > 30 && age > "30" && age>other && x != null && length(name) > 3 && zip in ["1", 2] && name contains 3`, ""},
	}
	for _, test := range tests {
		f, err := ParseFilter(test.filter)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, n := range f.typed {
			got = append(got, fmt.Sprintf("%s | %s | %s | %d", n.written, n.holdsFor(), n.instead, n.at))
		}
		if got := strings.Join(got, "; "); got != test.want {
			t.Errorf("%s: got %s, want %s", test.filter, got, test.want)
		}
	}
}

func TestTheFormatIsKnownWhereTheWorkflowTellsIt(t *testing.T) {
	tests := []struct {
		input workflow.Input
		want  string
	}{
		{workflow.Input{Text: "people.csv"}, "csv"},
		{workflow.Input{Text: "${dir}/people.TSV"}, "tsv"},
		{workflow.Input{Text: "cat people.csv"}, ""},
		{workflow.Input{File: "my people.csv"}, "csv"},
		{workflow.Input{File: "people.csv", Format: "json"}, "json"},
		{workflow.Input{Command: "cat people.csv", Format: "csv"}, "csv"},
		{workflow.Input{Glob: "*.csv"}, ""},
		{workflow.Input{Stdin: true, Format: "lines"}, "lines"},
	}
	for _, test := range tests {
		if got := toldFormat(test.input); got != test.want {
			t.Errorf("%+v: got %q, want %q", test.input, got, test.want)
		}
	}
}
