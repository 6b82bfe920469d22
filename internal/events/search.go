package events

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"prodigy/internal/jobs"
)

// Containing returns a Query.Matches for the lines in which the expression is found: in the line as it is
// written, or in one of its texts as it was before it was escaped.
func Containing(expr *regexp.Regexp) func(line []byte) bool {
	looks := looksAround(expr)
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
	w := newWord(text)
	return func(line []byte) bool {
		return w.in(searched(line)) || !simple(line) && slow(line)
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
	if bytes.IndexByte(line, '\\') >= 0 {
		return false
	}
	rest := line
	for len(rest) >= 8 {
		if binary.LittleEndian.Uint64(rest)&0x8080808080808080 != 0 {
			return false
		}
		rest = rest[8:]
	}
	for _, c := range rest {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

// word is a simple text to be found in lines, upper or lower case.
type word struct {
	lower []byte
	rare  int // which of its letters lines have least of
}

// common are letters of lines, those that come most often first.
const common = `e"_itad,:n1o0r2s3m4c5g6p7l8j9uwkv/`

func newWord(text string) word {
	w := word{lower: []byte(strings.ToLower(text))}
	for i, c := range w.lower {
		if rarity(c) > rarity(w.lower[w.rare]) {
			w.rare = i
		}
	}
	return w
}

func rarity(c byte) int {
	if i := strings.IndexByte(common, c); i >= 0 {
		return i
	}
	return len(common)
}

func (w word) in(line []byte) bool {
	c := w.lower[w.rare]
	return w.with(c, line) || 'a' <= c && c <= 'z' && w.with(c-'a'+'A', line)
}

// with reports whether the word is in the line with its rare letter written as c.
func (w word) with(c byte, line []byte) bool {
	for from := w.rare; from < len(line); from++ {
		i := bytes.IndexByte(line[from:], c)
		if i < 0 {
			return false
		}
		from += i
		if found := line[from-w.rare:]; len(found) >= len(w.lower) && w.is(found) {
			return true
		}
	}
	return false
}

// is reports whether b begins with the word.
func (w word) is(b []byte) bool {
	for i, c := range w.lower {
		if b[i] != c && (c < 'a' || c > 'z' || b[i] != c-'a'+'A') {
			return false
		}
	}
	return true
}

// looksAround reports whether the expression asks where a text or a word begins or ends.
func looksAround(expr *regexp.Regexp) bool {
	parsed, err := syntax.Parse(expr.String(), syntax.Perl)
	return err != nil || asksForEnds(parsed)
}

func asksForEnds(r *syntax.Regexp) bool {
	switch r.Op {
	case syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary,
		syntax.OpNoWordBoundary:
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
