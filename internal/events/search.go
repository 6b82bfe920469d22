package events

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
)

// Containing returns a Query.Matches for the lines in which the expression is found: in the line as it is written, or in one
// of its texts as it was before it was escaped.
func Containing(expr *regexp.Regexp) func(line []byte) bool {
	looks := looksAround(expr)
	return func(line []byte) bool {
		if expr.Match(line) {
			return true
		}
		// A text without escapes is part of the line. Only an expression that asks for its ends could be found in the one and not in the other.
		if !looks && bytes.IndexByte(line, '\\') < 0 {
			return false
		}
		var fields any
		return json.Unmarshal(line, &fields) == nil && textContains(fields, expr)
	}
}

// ContainingText is Containing for a text, upper or lower case. What it returns is for one goroutine.
func ContainingText(text string) func(line []byte) bool {
	slow := Containing(regexp.MustCompile("(?i)" + regexp.QuoteMeta(text)))
	word, simple := lowered(nil, []byte(text))
	var buf []byte
	return func(line []byte) bool {
		low, ok := lowered(buf[:0], line)
		buf = low
		if !simple || !ok {
			return slow(line)
		}
		return bytes.Contains(low, word)
	}
}

// lowered appends text to b in lower case. It is not ok when the text has escapes or letters past ASCII.
func lowered(b, text []byte) (low []byte, ok bool) {
	low = append(b, text...)
	for i, c := range low {
		switch {
		case 'A' <= c && c <= 'Z':
			low[i] = c + 'a' - 'A'
		case c == '\\' || c >= 0x80:
			return low, false
		}
	}
	return low, true
}

// looksAround tells whether the expression asks where a text or a word begins or ends.
func looksAround(expr *regexp.Regexp) bool {
	parsed, err := syntax.Parse(expr.String(), syntax.Perl)
	return err != nil || asksForEnds(parsed)
}

func asksForEnds(r *syntax.Regexp) bool {
	switch r.Op {
	case syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return true
	}
	return slices.ContainsFunc(r.Sub, asksForEnds)
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
