package events

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"prodigy/internal/jobs"
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
	text = valid(text)
	slow := Containing(regexp.MustCompile("(?i)" + regexp.QuoteMeta(text)))
	if text == "" || !simple([]byte(text)) {
		return slow
	}
	lower := bytes.ToLower([]byte(text))
	return func(line []byte) bool {
		if !simple(line) {
			return slow(line)
		}
		return bytes.Contains(bytes.ToLower(searched(line)), lower)
	}
}

// searched returns a line without its checksum, whose digits nobody looks for.
func searched(line []byte) []byte {
	if members := jobs.SealedMembers(line); members != nil {
		return members
	}
	return line
}

// simple reports whether a line is the text that it stands for, and its letters have two cases: that nothing
// is escaped or past ASCII.
func simple(line []byte) bool {
	for _, c := range line {
		if c == '\\' || c >= 0x80 {
			return false
		}
	}
	return true
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
