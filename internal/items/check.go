package items

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"prodigy/internal/check"
	"prodigy/internal/filter"
	"prodigy/internal/workflow"
)

// CheckInput finds a missing input file. The File of a problem is left empty.
func CheckInput(m *workflow.Map, e Env) []workflow.Problem {
	if _, err := resolve(m.Input, e); err != nil && !errors.Is(err, ErrLater) {
		return []workflow.Problem{m.Input.Pos.Problem("%v", err)}
	}
	return nil
}

// IsMissing reports whether the input is a file that is not there, so that another program may still make it.
func IsMissing(m *workflow.Map, e Env) bool {
	_, err := resolve(m.Input, e)
	return errors.Is(err, errNoFile)
}

// largeFile is the size from which on it may take longer than a moment to select the items of a file.
const largeFile = 4 << 20

// SelectedAtOnce reports whether the items are surely selected in a moment: a list in the workflow, file
// names, or a file that is not large.
func SelectedAtOnce(m *workflow.Map, e Env) bool {
	s, err := resolve(m.Input, e)
	return err == nil && s.atOnce()
}

// atOnce reports whether reading the source surely takes no more than a moment. A file that is not a regular one, such
// as a pipe, may wait for its writer.
func (s source) atOnce() bool {
	switch {
	case s.command != "" || s.stdin || s.job:
		return false
	case s.file == "":
		// A list, or a pattern of which only the names are wanted.
		waits := func(part source) bool { return !part.atOnce() }
		return (s.glob == "" || s.format == "") && !slices.ContainsFunc(s.parts, waits)
	}
	info, err := os.Stat(s.file)
	return err == nil && info.Mode().IsRegular() && info.Size() < largeFile
}

// Check finds paths, filters, orders and fields that do not parse. Messages point at the place with a caret.
// The File of a problem is left empty.
func Check(m *workflow.Map) []workflow.Problem {
	var found []workflow.Problem
	for _, x := range new(pipeline).expressions(m) {
		if x.text.Value == "" {
			continue
		}
		if err := cmp.Or(unfilled(x.text.Value), x.parse(x.text.Value)); err != nil {
			found = append(found, x.text.At(1, 1).Problem("%s: %v", x.name, err))
		}
	}
	return found
}

// unfilled returns an error if an expression has a placeholder, since nothing replaces it.
func unfilled(src string) error {
	if !strings.Contains(src, "${") {
		return nil
	}
	for _, at := range placeholder().FindAllString(src, -1) {
		name, ok := strings.CutPrefix(at, "${")
		switch {
		case !ok:
		case strings.HasPrefix(name, "item"):
			return fmt.Errorf("unknown name %s: use item.name for a field", at)
		default:
			return fmt.Errorf("%s is not available here, where only item values are; filter with a value in an input command, "+
				`whose environment has the parameters, as in input: {command: 'jq --arg team "$team" … items.json'}`, at)
		}
	}
	return nil
}

// Warnings finds comparisons in a filter that hold for no item because the format of the input has only texts.
// Messages point at the place with a caret. The File of a problem is left empty.
func Warnings(m *workflow.Map) []workflow.Problem {
	format := knownFormat(m.Input)
	if strings.HasPrefix(m.JSONPath.Value, "$[*]") && check.Among("csv tsv", format) {
		return []workflow.Problem{m.JSONPath.At(1, 1).Problem(
			"json_path looks at each row: %s makes an item of each field; without it each row is an item", m.JSONPath.Value)}
	}
	if m.Filter.Value == "" {
		return nil
	}
	f, err := filter.Parse(m.Filter.Value)
	if err != nil || workflow.FormatNamed(format).Texts == workflow.NoTexts {
		return nil
	}
	var found []workflow.Problem
	for _, t := range f.TypedComparisons {
		if !t.OfTexts {
			found = append(found, m.Filter.At(1, 1).Problem(
				"filter: %s has only strings, so %s is true for no item: use number(field), or quotes\n%s",
				format, t.Written, filter.PointAt(m.Filter.Value, t.At)))
		}
	}
	return found
}

// knownFormat returns the format of the input given in the workflow, by a key or the name of the file, or "" if it is
// not known or not the same for all files.
func knownFormat(in workflow.Input) string {
	names := in.File
	if in.Text != "" && !looksLikeCommand(withoutPlaceholders(in.Text)) {
		names = []string{in.Text}
	}
	format := in.Format
	for i, name := range names {
		switch of := workflow.FormatOfFile(name); {
		case in.Format != "":
		case i == 0:
			format = of
		case of != format:
			return ""
		}
	}
	return format
}
