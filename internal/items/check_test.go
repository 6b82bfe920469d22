package items

import (
	"testing"

	"prodigy/internal/workflow"
)

func TestTheFormatIsKnownWhereTheWorkflowTellsIt(t *testing.T) {
	tests := []struct {
		input workflow.Input
		want  string
	}{
		{workflow.Input{Text: "people.csv"}, "csv"},
		{workflow.Input{Text: "${dir}/people.TSV"}, "tsv"},
		{workflow.Input{Text: "cat people.csv"}, ""},
		{workflow.Input{File: []string{"my people.csv"}}, "csv"},
		{workflow.Input{File: []string{"people.csv"}, Format: "json"}, "json"},
		{workflow.Input{Command: "cat people.csv", Format: "csv"}, "csv"},
		{workflow.Input{Glob: []string{"*.csv"}}, ""},
		{workflow.Input{Stdin: true, Format: "lines"}, "lines"},
	}
	for _, test := range tests {
		if got := knownFormat(test.input); got != test.want {
			t.Errorf("%+v: got %q, want %q", test.input, got, test.want)
		}
	}
}
