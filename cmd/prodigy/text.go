package main

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// shorten cuts s to limit characters, the last of them an ellipsis.
func shorten(s string, limit int) string {
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

// lastLines returns the last n lines of s that are not empty.
func lastLines(s string, n int) []string {
	var kept []string
	for line := range strings.Lines(s) {
		if line = strings.TrimRight(line, "\r\n"); strings.TrimSpace(line) != "" {
			kept = append(kept, line)
		}
	}
	return kept[max(len(kept)-n, 0):]
}

// prefixed returns prefix+s, or "" if s is empty.
func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// counted returns a number with its noun, whose plural takes an s.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
