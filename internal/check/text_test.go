package check

import (
	"fmt"
	"strings"
	"testing"
)

func TestWordsForTextsAreAsPeopleWriteThem(t *testing.T) {
	var entries strings.Builder
	for key, value := range ByKey(map[string]int{"b": 2, "c": 3, "a": 1}) {
		entries.WriteString(fmt.Sprint(key, value))
	}
	for _, test := range []struct{ got, want string }{
		{Counted(0, "item"), "0 items"},
		{Counted(1, "item"), "1 item"},
		{Counted(2, "try"), "2 tries"},
		{Few([]string{"a", "b"}, 2), "a, b"},
		{Few([]string{"a", "b", "c"}, 1), "a and 2 more"},
		{LastLine("a\n b \n\n"), "b"},
		{LastLine(""), ""},
		{entries.String(), "a1b2c3"},
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
}
