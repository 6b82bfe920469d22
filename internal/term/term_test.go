package term

import (
	"strings"
	"testing"
)

func TestTextIsFoldedAtBlanks(t *testing.T) {
	g := Look{Colours: true}
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"short", "short"},
		{"twenty columns fit in", "twenty columns fit\n  in"},
		{g.Paint(Red, "3 failed") + " and so many words", g.Paint(Red, "3 failed") + " and so many\n  words"},
		{"see /a/path/that/is/longer/than/a/line for it", "see\n  /a/path/that/is/longer/than/a/line\n  for it"},
		{"  | indented, and folded under it", "  | indented, and\n  folded under it"},
		{"世界 世界 世界 世界 世界", "世界 世界 世界 世界\n  世界"},
	} {
		if got := (Look{Width: 20}).Fold(2, c.text); got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
	if text := strings.Repeat("a b ", 40); (Look{}).Fold(2, text) != text {
		t.Error("text that goes to no terminal was folded")
	}
}
