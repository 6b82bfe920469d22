package items

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"prodigy/internal/filter"
	"prodigy/internal/workflow"
)

// textFormats are the formats in which all is text.
var textFormats = []string{"csv", "tsv", "lines", "nul"}

// Warnings tells of what in a filter can hold for no item, or only for all of them, because the workflow says of its input that all in it
// is text. Messages hold a caret under the place. The File of a problem is left for the caller to fill in.
func Warnings(m *workflow.Map) []workflow.Problem {
	if m.Filter == "" {
		return nil
	}
	format := toldFormat(m.Input)
	f, err := filter.Parse(m.Filter)
	if err != nil || !slices.Contains(textFormats, format) {
		return nil
	}
	var found []workflow.Problem
	for _, t := range f.TypedComparisons {
		found = append(found, workflow.Problem{
			Line: m.FilterPos.Line, Col: m.FilterPos.Col,
			Message: fmt.Sprintf("filter: %s has texts only, so that %s holds for %s item: write %s\n%s",
				format, t.Written, t.HoldsFor(), t.Instead, filter.PointAt(m.Filter, t.At)),
		})
	}
	return found
}

// toldFormat returns the format of the input given in the workflow, by a key or the name of the file, or "".
func toldFormat(in workflow.Input) string {
	name := in.File
	if !looksLikeCommand(withoutPlaceholders(in.Text)) {
		name = cmp.Or(name, in.Text)
	}
	return cmp.Or(in.Format, extensions()[strings.ToLower(filepath.Ext(name))])
}
