package term

import (
	"strings"
	"unicode/utf8"
)

// OneLine returns s on one line: each run of white space is one space, and there is none at the ends.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Shorten returns s on one line, cut to limit characters.
func Shorten(s string, limit int) string {
	var b strings.Builder
	for word := range strings.FieldsSeq(s) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(word)
		if b.Len() > limit*utf8.UTFMax {
			break // Ellipsis leaves nothing of what follows
		}
	}
	return Ellipsis(b.String(), limit)
}

// Ellipsis returns s, cut to limit characters, the last of them an ellipsis.
func Ellipsis(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	for i := range s {
		if limit--; limit <= 0 {
			return s[:i] + ellipsis
		}
	}
	return s
}
