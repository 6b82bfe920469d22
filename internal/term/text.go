package term

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"prodigy/internal/check"
)

// VisibleLines makes text of several lines visible, as Visible does one line.
func VisibleLines(s string) string {
	if !strings.ContainsFunc(s, isHidden) && utf8.ValidString(s) {
		return s
	}
	return visible(strings.ReplaceAll(s, "\r\n", "\n"), '\n')
}

// Visible replaces what a terminal would obey or not show by a placeholder, also the ends of lines. Tabs stay.
func Visible(s string) string { return visible(s, '\t') }

// visible replaces what is hidden but for one character.
func visible(s string, kept rune) string {
	return strings.Map(func(r rune) rune {
		if r != kept && isHidden(r) {
			return utf8.RuneError
		}
		return r
	}, s)
}

// isHidden reports whether r is a control character but a tab, or one that turns the direction of text or has no width,
// with which text can look like another. The joiners of scripts and emoji stay.
func isHidden(r rune) bool {
	switch {
	case r == '\t' || ' ' <= r && r < 0x7f:
		return false
	case r < 0xa0:
		return true
	case r == '\u200c', r == '\u200d':
		return false
	case r == '\u00ad' || unicode.Is(unicode.Prepended_Concatenation_Mark, r):
		return false
	}
	return unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

// Brief makes a text visible and cuts it to so many characters.
func Brief(s string, limit int) string { return Ellipsis(Visible(s), limit) }

// Cell is Brief for text in a line whose columns are counted. A tab, which has no width of its own, becomes a space.
func Cell(s string, limit int) string { return Ellipsis(Untabbed(s), limit) }

// Untabbed is Visible with a space for each tab.
func Untabbed(s string) string { return Visible(strings.ReplaceAll(s, "\t", " ")) }

// Joined returns the lines of s on one, with bars between them.
func Joined(s string) string {
	if !strings.ContainsAny(s, "\r\n") {
		return Visible(s)
	}
	lines := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' })
	return Visible(strings.Join(lines, " | "))
}

// Distinct returns the lines of s on one, with semicolons between them. It leaves out those that earlier ones include.
func Distinct(s string) string {
	said := ""
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); said == "" {
			said = line
		} else if !strings.Contains(said, line) {
			said += "; " + line
		}
	}
	return Visible(said)
}

// LastLines returns the last n lines of s that are not empty, without colours.
func LastLines(s string, n int) []string {
	var kept []string
	for line := range strings.Lines(check.WithoutColours(s)) {
		if line = check.LastWritten(line); line != "" {
			kept = append(kept, line)
		}
	}
	return kept[max(len(kept)-n, 0):]
}

// Prefixed returns prefix+s, or "" if s is empty.
func Prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// YesNo returns yes or no.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
