// Package oneline makes texts of any length fit where one line of them is shown.
package oneline

import (
	"strings"
	"unicode/utf8"
)

// Of returns s on one line: each run of white space is one space, and there is none at the ends.
func Of(s string) string { return strings.Join(strings.Fields(s), " ") }

// Brief returns s on one line, cut to limit characters.
func Brief(s string, limit int) string {
	var b strings.Builder
	for word := range strings.FieldsSeq(s) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(word)
		if b.Len() > limit*utf8.UTFMax {
			break // Cut leaves nothing of what follows
		}
	}
	return Cut(b.String(), limit)
}

// Cut returns s, cut to limit characters, the last of them an ellipsis.
func Cut(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	cut := 0
	for range limit - 1 {
		_, size := utf8.DecodeRuneInString(s[cut:])
		cut += size
	}
	return s[:cut] + "…"
}
