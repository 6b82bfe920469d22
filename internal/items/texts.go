package items

import (
	"cmp"
	"fmt"

	"prodigy/internal/filter"
	"prodigy/internal/workflow"
)

// Warnings returns the comparisons in a filter that hold for no item, or for every one, because the format of the
// input has texts only. Messages hold a caret under the place. The File of a problem is left for the caller to fill in.
func Warnings(m *workflow.Map) []workflow.Problem {
	if m.Filter == "" {
		return nil
	}
	format := knownFormat(m.Input)
	f, err := filter.Parse(m.Filter)
	if err != nil || workflow.FormatNamed(format).Texts == workflow.NoTexts {
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

// knownFormat returns the format of the input given in the workflow, by a key or the name of the file, or "".
func knownFormat(in workflow.Input) string {
	name := in.File
	if !looksLikeCommand(withoutPlaceholders(in.Text)) {
		name = cmp.Or(name, in.Text)
	}
	return cmp.Or(in.Format, workflow.FormatOfFile(name))
}
