package events

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"prodigy/internal/jobs"
	"prodigy/internal/rawjson"
)

// Containing returns a Query.Matches for the lines in which the expression is found: in the line as it is
// written, or in one of its texts as it was before it was escaped.
func Containing(expr *regexp.Regexp) func(line []byte) bool {
	looks := strings.ContainsAny(expr.String(), `^$\`) // it may ask where a text or a word begins or ends
	return func(line []byte) bool {
		if expr.Match(searched(line)) {
			return true
		}
		// A text without escapes is part of the line. Only an expression that asks for its ends could be
		// found in the one and not in the other.
		if !looks && bytes.IndexByte(line, '\\') < 0 {
			return false
		}
		var fields any
		return json.Unmarshal(jobs.StripSeal(line), &fields) == nil && textContains(fields, expr)
	}
}

// ContainingText is Containing for a text, upper or lower case. What is not UTF-8 in it is looked for as the
// log has it.
func ContainingText(text string) func(line []byte) bool {
	quoted := rawjson.Of(valid(text))
	escaped, plain := bytes.ToLower(quoted[1:len(quoted)-1]), bytes.ToLower([]byte(valid(text)))
	return func(line []byte) bool {
		lower := bytes.ToLower(searched(line))
		return bytes.Contains(lower, escaped) || bytes.Contains(lower, plain)
	}
}

// searched returns a line without its checksum, whose digits nobody looks for.
func searched(line []byte) []byte {
	if members := jobs.SealedMembers(line); members != nil {
		return members
	}
	return line
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
