package filter

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const filtered = `{"score": 5, "price": 1.10, "big": 9007199254740993, "name": "Ünïx-é", "status": "done", "on": true, "off": false,
	"none": null, "tags": ["x", "y", 3], "empty": [], "a": {"b": [{"c": 7}], "odd name": "q\"uote"}, "path": "src/main.go", "huge": 1e400,
	"item": {"score": 99}, "s": "5", "z": 0, "blank": "", "o1": {"k": 1, "l": 2.0}, "o2": {"l": 2, "k": 1.0}, "retry-count": 3, "win": "a\\b", "nul": "\u0041"}`

func TestFilters(t *testing.T) {
	for src, want := range map[string]bool{
		"item.score == 5": true, "score == 5": true, "score = 5": true, "score == 5.0": true, "score == 5e0": true, "score != 5": false,
		"score < 6": true, "score <= 5": true, "score > 5": false, "score >= 5.0001": false, "-1 < score": true,
		"price == 1.1": true, "price > 1.09999999999999999999": true,
		"big == 9007199254740993": true, "big == 9007199254740992": false, "big > 9007199254740992": true,
		"huge > 1e399": true, "huge < 1e401": true, "huge == 10e399": true,
		"score == '5'": false, "s == '5'": true, "score < '6'": false, "score >= '5'": false, "s < 6": false, "s != 5": true, "on > false": false,
		"status == \"done\"": true, "status == 'done'": true, "status < 'dooo'": true, "name > 'z'": true,
		"missing == null": true, "missing != null": false, "none == null": true, "missing < 1": false, "missing <= null": false, "missing.deep[3].x == null": true,
		"on": true, "off": false, "missing": false, "z": false, "blank": false, "empty": false, "tags": true, "a": true, "s": true,
		"!off": true, "not off": true, "!!on": true, "!status == 'done'": false, "not status == 'open'": true,
		"on && off": false, "on || off": true, "on and off": false, "on or off": true,
		"on || off && off": true, "(on || off) && off": false, "!off && on": true, "!(off && on)": true, "! off || on and off": true,
		"status in ['done', 'open']": true, "status in []": false, "score in [1, 5.0]": true, "missing in [null]": true, "s in [5]": false, "3 in [a.b[0].c, 3]": true,
		"tags contains 'x'": true, "tags contains 3.0": true, "tags contains 'z'": false, "name contains 'ïx'": true, "score contains 5": false,
		"status starts_with 'do'": true, "status ends_with 'ne'": true, "score starts_with '5'": false, "missing ends_with ''": false,
		`path matches '\.go$'`: true, `matches(path, '^src/.*\.go$')`: true, `matches(item.path, "\\.rs$")`: false, "score matches '5'": false, `status matches '\bdone\b'`: true,
		"number('41') > 9": true, "number(' 1.50 ') == 1.5": true, "number('4x') == null": true, "number(tags) == null": true, "number(missing) > 0": false, "number(7) = 7": true,
		"length(tags) == 3": true, "length(name) == 6": true, "length(a) == 2": true, "length(score) == null": true, "length(missing) > 0": false, "length(item.empty) = 0": true,
		"is_null(missing)": true, "is_null(none)": true, "is_null(z)": false, "is_number(price)": true, "is_string(s)": true, "is_bool(off)": true,
		"is_array(empty)": true, "is_object(a)": true, "is_object(tags)": false, "is_number(s)": false,
		"a.b[0].c == 7": true, "item.a.b[0].c >= 7": true, "a.b[1].c == null": true, `a["odd name"] == 'q"uote'`: true, `item["a"]['b'][0]["c"] == 7`: true, `["status"] == 'done'`: true,
		"item.item.score == 99": true, "item == null": false, "is_object(item)": true,
		"o1 == o2": true, "o1 != a": true, "tags == a.b": false, "tags == tags": true, "retry-count == 3": true,
		`win == 'a\\b'`: true, `win == 'a\b'`: true, `nul == 'A'`: true, `nul == '\u0041'`: true, "on == true": true, "(score > 1) == true": true,
		"on AND off": false, "on And NOT off": true, "off OR on": true, "status IN ['done']": true, "status not in ['open']": true, "status NOT IN ['done']": false,
		"not status not in ['done']": true, "on and score not in [1, 2] or off": true, "NOT(off)": true, "a.AND == null": true, "item.NULL == null": true,
		"contains(tags, 'x')": true, "contains(status, 'on')": true, "starts_with(status, 'do')": true, "ends_with(status, 'do')": false, "!contains(tags, 'q') and on": true,
		"is_not_null(score)": true, "is_not_null(none)": false, "is_not_null(missing)": false, "contains(item.path, 'src') == true": true,
		"  score\n  ==\t5  ": true, "score>=5&&on": true, "a.in == null": true, "item.matches == null": true,
	} {
		f, err := Parse(src)
		if err != nil {
			t.Errorf("%s: %v", src, err)
			continue
		}
		if got := f.Match([]byte(filtered)); got != want {
			t.Errorf("%s: got %v, want %v", src, got, want)
		}
	}
}

func TestFiltersOfItemsThatAreNoObjects(t *testing.T) {
	for _, c := range []struct {
		src, item string
		want      bool
	}{
		{"item > 3", "4", true},
		{"item == 'a'", `"a"`, true},
		{"item.x == null", "4", true},
		{"item[1] == 2", "[1,2]", true},
		{"[0] == 2", "[1,2]", false},
		{"length(item) == 2", " [ 1 , [ 2 , 3 ] ] ", true},
		{"a == 2", `{"a":1,"a":2}`, true},
		{`["a\u0062"] == 1`, `{"\u0061b":1}`, true},
	} {
		f, err := Parse(c.src)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Match([]byte(c.item)); got != c.want {
			t.Errorf("%s on %s: got %v, want %v", c.src, c.item, got, c.want)
		}
	}
}

func TestABadFilterIsShownWithACaret(t *testing.T) {
	for src, want := range map[string]string{
		"item.a ==":        "expected a field, value or \"(\", got the end\n  item.a ==\n           ^",
		"a == 1 b":         "expected an operator or the end, got \"b\"\n  a == 1 b\n         ^",
		"a == True":        "use true for the constant, or item.True for a field of that name\n  a == True\n       ^",
		"a != NULL or b":   "use null for the constant, or item.NULL for a field of that name\n  a != NULL or b\n       ^",
		"a == None":        "use null for the constant, or item.None for a field of that name\n  a == None\n       ^",
		"FALSE":            "use false for the constant, or item.FALSE for a field of that name\n  FALSE\n  ^",
		"a == 1 AND":       "expected a field, value or \"(\", got the end\n  a == 1 AND\n            ^",
		"a NOT b":          "expected \"in\" after \"NOT\", got \"b\" (for a negated comparison use not a == b)\n  a NOT b\n        ^",
		"contains(a)":      "expected \",\" between the arguments of contains, got \")\"\n  contains(a)\n            ^",
		"é == 'x":          "unterminated string\n  é == 'x\n       ^",
		"a & b":            "unexpected '&'\n  a & b\n    ^",
		"$.a == 1":         "unexpected '$' (use item.name for a field)\n  $.a == 1\n  ^",
		"a in 3":           "expected \"[\" after in, got \"3\"\n  a in 3\n       ^",
		"a in [1 2]":       "expected \",\" or \"]\" in the list, got \"2\"\n  a in [1 2]\n          ^",
		"(a == 1":          "expected \")\" to close the parenthesis, got the end\n  (a == 1\n         ^",
		"a matches '('":    "invalid regular expression: missing closing ): (\n  a matches '('\n            ^",
		"a matches b":      "expected a regular expression in quotes, got \"b\"\n  a matches b\n            ^",
		"size(a) == 1":     "unknown function \"size\" (known: contains, ends_with, is_array, is_bool, is_not_null, is_null, is_number, is_object, is_string, length, matches, number or starts_with)\n  size(a) == 1\n  ^",
		"a[-1] == 1":       "expected an index, an integer from 0, got \"-1\"\n  a[-1] == 1\n    ^",
		"a. == 1":          "expected a name after \".\", got \"==\"\n  a. == 1\n     ^",
		"a == 1\n  and ]":  "expected a field, value or \"(\", got \"]\"\n    and ]\n        ^",
		"a == 12abc":       "invalid number; quote strings\n  a == 12abc\n         ^",
		"and == 1":         "expected a field or a value, got \"and\" (use item.and for a field of that name)\n  and == 1\n  ^",
		"contains == 1":    "expected a field or a value, got \"contains\" (use item.contains for a field of that name)\n  contains == 1\n  ^",
		"":                 "expected a field, value or \"(\", got the end\n  \n  ^",
		"length(a, b) > 1": "expected \")\" after the argument of length, got \",\"\n  length(a, b) > 1\n          ^",
		"a == 1 == 2":      "expected an operator or the end, got \"==\"\n  a == 1 == 2\n         ^",
	} {
		_, err := Parse(src)
		if err == nil {
			t.Errorf("%q: got no error", src)
			continue
		}
		if diff := cmp.Diff(want, err.Error()); diff != "" {
			t.Errorf("%q: got + want -\n%s", src, diff)
		}
	}
}

func TestDeepNestingIsRefused(t *testing.T) {
	for _, src := range []string{strings.Repeat("!", 1<<20) + "a", strings.Repeat("(", 1<<20)} {
		if _, err := Parse(src); err == nil || !strings.HasPrefix(err.Error(), "nested too deeply") {
			t.Errorf("got %.60v, want that it is nested too deeply", err)
		}
	}
}

func TestNumbersCompareByValue(t *testing.T) {
	spelled := rapid.StringMatching(`-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,9})?([eE][+-]?[0-9]{1,2})?`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := spelled.Draw(t, "a"), spelled.Draw(t, "b")
		x, okX := new(big.Rat).SetString(a)
		y, okY := new(big.Rat).SetString(b)
		if !okX || !okY {
			t.Fatalf("%s or %s is not a number", a, b)
		}
		if got, want := compareNumbers(a, b), x.Cmp(y); got != want {
			t.Fatalf("compare %s and %s: got %d, want %d", a, b, got, want)
		}
	})
}

func TestNumbersOfAnyExponentCompare(t *testing.T) {
	if got := compareNumbers("1e99999999999999999999", "1e-99999999999999999999"); got != 1 {
		t.Errorf("got %d, want 1", got)
	}
	if got := compareNumbers("-0.0", "0e99999999999999999999"); got != 0 {
		t.Errorf("got %d, want 0", got)
	}
}

func TestAFieldIsFoundAsTheJSONPackageFindsIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := documents().Draw(t, "document").(map[string]any)
		indented, err := json.MarshalIndent(doc, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range doc {
			got, ok := ValueOf(indented).at([]step{{name: name}})
			raw, err := json.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			if !ok || !got.Equal(ValueOf(raw)) {
				t.Fatalf("%s of %s: got %+v, want %s", name, indented, got, raw)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"item.score >= 5 && !(name contains 'x' or a[0][\"k\"] in [1, -2.5e3, null, true])",
		`matches(path, '\.go$') and path matches "^a" || length(x) != 0`, "is_null(a.b) or c ends_with 'é'", "'\\u0041' == a",
	} {
		f.Add(s, filtered)
	}
	f.Add("[0] == ['x'][3]", `[1,{"a":"\`)
	f.Fuzz(func(t *testing.T, src, item string) {
		parsed, err := Parse(src)
		if err != nil {
			if !strings.Contains(err.Error(), "\n  ") {
				t.Errorf("%q: the error shows no place: %v", src, err)
			}
			return
		}
		negated, err := Parse(fmt.Sprintf("!(%s)", src))
		if err != nil {
			return // nested one deeper
		}
		if parsed.Match([]byte(item)) == negated.Match([]byte(item)) {
			t.Errorf("%q and its negation agree on %q", src, item)
		}
	})
}
