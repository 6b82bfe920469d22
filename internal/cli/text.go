package cli

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// visibleLines makes text of several lines visible, as visible does one line.
func visibleLines(s string) string {
	if !strings.ContainsFunc(s, isHidden) && utf8.ValidString(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r != '\n' && isHidden(r) {
			return utf8.RuneError
		}
		return r
	}, strings.ReplaceAll(s, "\r\n", "\n"))
}

// visible replaces what a terminal would obey or not show by a placeholder, also the ends of lines. Tabs stay.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if isHidden(r) {
			return utf8.RuneError
		}
		return r
	}, s)
}

// isHidden reports whether r is a control character but a tab, or one that turns the direction of text or has no width, with which text can
// look like another. The joiners of scripts and emoji stay.
func isHidden(r rune) bool {
	switch {
	case r == '\t' || ' ' <= r && r < 0x7f:
		return false
	case r < 0xa0:
		return true
	case r == '\u200c', r == '\u200d':
		return false
	}
	return unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) && !unicode.In(r, unicode.Prepended_Concatenation_Mark) && r != '\u00ad'
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
