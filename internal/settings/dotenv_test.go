package settings

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAFileIsReadAsItStands(t *testing.T) {
	for text, want := range map[string][]dotenvVar{
		"":                           nil,
		"# only a comment\n\n":       nil,
		"A=b":                        {{"A", "b"}},
		"A=":                         {{"A", ""}},
		"A=b\nB=c\n":                 {{"A", "b"}, {"B", "c"}},
		"A=b\r\nB=c\r\n":             {{"A", "b"}, {"B", "c"}},
		"\ufeffA=b":                  {{"A", "b"}},
		"export A=b":                 {{"A", "b"}},
		"export\tA=b":                {{"A", "b"}},
		"exported=b":                 {{"exported", "b"}},
		"  A = b c  ":                {{"A", "b c"}},
		"A=b # comment":              {{"A", "b"}},
		"A=b#no":                     {{"A", "b#no"}},
		"A=# comment":                {{"A", ""}},
		"A='b # c' # comment":        {{"A", "b # c"}},
		"A=b=c":                      {{"A", "b=c"}},
		"A=$HOME `id` $(id) ${X:-y}": {{"A", "$HOME `id` $(id) ${X:-y}"}},
		"A='$HOME \\n'":              {{"A", `$HOME \n`}},
		`A="a\nb\t\"\\\$\x"`:         {{"A", "a\nb\t\"\\$\\x"}},
		"A=\"one\ntwo\"\nB=c":        {{"A", "one\ntwo"}, {"B", "c"}},
		"A='one\n# two\n'\nB=c":      {{"A", "one\n# two\n"}, {"B", "c"}},
		"A=it's":                     {{"A", "it's"}},
		"A=b\nA=c":                   {{"A", "b"}, {"A", "c"}},
		`A=""`:                       {{"A", ""}},
	} {
		got, err := parseDotenv([]byte(text))
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("%q: got %v %v, want %v", text, got, err, want)
		}
	}
}

func TestAMistakeIsToldWithItsLineAndWithoutItsText(t *testing.T) {
	for text, want := range map[string]string{
		"A=b\nhunter2":         "line 2: must be NAME=value",
		"export A":             "line 1: must be NAME=value",
		"1A=hunter2":           "line 1: invalid variable name before \"=\": use letters",
		"A B=hunter2":          "line 1: invalid variable name before \"=\": use letters",
		"=hunter2":             "line 1: invalid variable name before \"=\": use letters",
		"\n\nA=\"hunter2\nx\n": "line 3: unclosed quote in the value of A",
		"A='x\ny' hunter2":     "line 2: unexpected text after",
		"A=b\nB=hunter2\x00":   "line 2: a NUL byte",
	} {
		_, err := parseDotenv([]byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func FuzzWhatIsQuotedComesBack(f *testing.F) {
	f.Add("a", "A=b")
	f.Add("a\nb # c \" $x \\", "A='b\n")
	f.Fuzz(func(t *testing.T, value, file string) {
		_, _ = parseDotenv([]byte(file)) // does not panic
		if strings.ContainsAny(value, "\x00\r") {
			return
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
		got, err := parseDotenv([]byte("A=" + quoted + "\nB=c"))
		if err != nil || !cmp.Equal(got, []dotenvVar{{"A", value}, {"B", "c"}}) {
			t.Errorf("%s: got %v %v", strconv.Quote(value), got, err)
		}
	})
}
