package term

import (
	"strings"
	"testing"
)

func TestTextsAreOnOneLineAndCutByCharacters(t *testing.T) {
	long := strings.Repeat("é ", 5000)
	for _, c := range []struct{ in, of, brief, cut string }{
		{"", "", "", ""},
		{"abcd", "abcd", "abcd", "abcd"},
		{"äöüß", "äöüß", "äöüß", "äöüß"},
		{"äöüßx", "äöüßx", "äöü…", "äöü…"},
		{" a\r\n\tb ", "a b", "a b", " a\r…"},
		{"a\n\n", "a", "a", "a\n\n"},
		{strings.Repeat(" ", 5000) + "ab" + strings.Repeat("\n", 5000), "ab", "ab", "   …"},
		{long, strings.TrimSpace(long), "é é…", "é é…"},
		{"a\u00a0b\u2028c", "a b c", "a b…", "a\u00a0b…"},
		{"ab\xffde", "ab\xffde", "ab\xff…", "ab\xff…"},
	} {
		if got := OneLine(c.in); got != c.of {
			t.Errorf("OneLine(%q) = %q, want %q", c.in, got, c.of)
		}
		if got := Shorten(c.in, 4); got != c.brief {
			t.Errorf("Shorten(%q, 4) = %q, want %q", c.in, got, c.brief)
		}
		if got := Ellipsis(c.in, 4); got != c.cut {
			t.Errorf("Ellipsis(%q, 4) = %q, want %q", c.in, got, c.cut)
		}
	}
}
