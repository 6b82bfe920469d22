package events

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
)

// Containing returns a Query.Matches for the lines in which the expression is found: in the line as it is written, or in one
// of its texts as it was before it was escaped.
func Containing(expr *regexp.Regexp) func(line []byte) bool {
	return func(line []byte) bool {
		if expr.Match(line) {
			return true
		}
		var fields any
		return json.Unmarshal(line, &fields) == nil && textContains(fields, expr)
	}
}

func textContains(value any, expr *regexp.Regexp) bool {
	within := func(v any) bool { return textContains(v, expr) }
	switch v := value.(type) {
	case string:
		return expr.MatchString(v)
	case []any:
		return slices.ContainsFunc(v, within)
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), within)
	}
	return false
}
