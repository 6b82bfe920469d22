package shell

import (
	"fmt"
	"testing"
)

func TestPlanCallFindsTheCode(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string // words that are code, and whether the input is
	}{
		{[]string{"sh", "-c", "x", "a"}, "[[2]] false"},
		{[]string{"sh", "-ec", "x"}, "[[2]] false"},
		{[]string{"sh", "-o", "errexit", "-c", "x"}, "[[4]] false"},
		{[]string{"bash", "--norc", "-c", "x"}, "[[3]] false"},
		{[]string{"sh"}, "[] true"},
		{[]string{"sh", "-s", "a"}, "[] true"},
		{[]string{"sh", "file"}, "[] false"},
		{[]string{"eval", "--", "x", "y"}, "[[2 3]] false"},
		{[]string{"trap", "x", "EXIT"}, "[[1]] false"},
		{[]string{"env", "a=1", "timeout", "5", "sh", "-c", "x"}, "[[6]] false"},
		{[]string{"find", ".", "-exec", "sh", "-c", "x", ";"}, "[[5]] false"},
		{[]string{"echo", "sh", "-c", "x"}, "[] false"},
		{[]string{"ssh", "-p", "1", "host", "x", "y"}, "[[4 5]] false"},
		{[]string{"", "-c", "x"}, "[] false"},
	} {
		p := PlanCall(c.args)
		codes := [][]int{}
		for _, code := range p.Codes {
			codes = append(codes, code.Args)
		}
		if got := fmt.Sprint(codes, p.Stdin != nil); got != c.want {
			t.Errorf("%q: got %s, want %s", c.args, got, c.want)
		}
	}
}

func TestUnescape(t *testing.T) {
	for _, c := range []struct{ lit, special, want string }{
		{`a\$b\"c\d`, Outside, `a$b"cd`},
		{`a\$b\"c\d`, InDouble, `a$b"c\d`},
		{`a\$b\"c\d`, InHeredoc, `a$b\"c\d`},
		{"a\\\nb", InDouble, "ab"},
		{`a\`, Outside, `a\`},
	} {
		if got := Unescape(c.lit, c.special); got != c.want {
			t.Errorf("%q: got %q, want %q", c.lit, got, c.want)
		}
	}
}
