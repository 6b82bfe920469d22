package filter

import (
	"strings"
	"testing"
)

// terms gives the values of a condition's terms by what is written: typed when they are JSON documents behind a "=".
func holds(t *testing.T, src string, values map[string]string) bool {
	t.Helper()
	c, err := ParseCondition(src)
	if err != nil {
		t.Fatalf("%s: got error %v, want none", src, err)
	}
	is, err := c.Holds(func(i int) (Value, error) {
		v, ok := values[c.Terms[i].Src]
		switch raw, typed := strings.CutPrefix(v, "="); {
		case !ok:
			return Value{}, nil
		case typed:
			return ValueOf([]byte(raw)), nil
		default:
			return Untyped(v), nil
		}
	})
	if err != nil {
		t.Fatalf("%s: got error %v, want none", src, err)
	}
	return is
}

func TestConditionsTakeValuesFromOutside(t *testing.T) {
	values := map[string]string{
		"code": "0", "count": "12", "name": "x", "five": "5", "yes": "true", "no": "false", "none": "", "evil": "1 || true",
		"item.n": "=7", "item.s": `="7"`, "item.list": `=[1,"5","a"]`, "a-b.success": "TRUE", `item["odd name"]`: `="o"`, "pre-${name}": "pre-x",
		"${name}": "x", "x:-it's }": "d",
	}
	tests := []struct {
		src  string
		want bool
	}{
		{"code == 0", true},
		{"${code} != 0", false},
		{"${count} > 9", true},
		{"count > five", true},  // as numbers, though both are texts
		{"count == '12'", true}, // and as a text beside a text
		{"count starts_with '1'", true},
		{"${count} in [1, 12]", true},
		{"item.n == 7 && item.s != 7", true}, // an item's fields have kinds
		{"item.s == '7'", true},
		{"five in [item.list[1], 6]", false},
		{"item.list contains five", true},
		{"length(item.list) == 3", true},
		{"yes", true},
		{"no || none || code", false},
		{"!no && yes == true", true},
		{"a-b.success", true},
		{`item["odd name"] == "o"`, true},
		{`${item["odd name"]} == 'o'`, true},
		{"missing == null", true},
		{"'pre-${name}' == 'pre-x'", true},
		{"'${name}' == name", true},
		{"evil", true},
		{"evil == 1", false},
		{"evil == true", false},
		{"${evil} == '1 || true'", true},
		{"name matches '^x$'", true},
		{`${x:-it's \}} == 'd'`, false},
		{"${yes && no}", false}, // the whole may stand in one placeholder
		{"${yes && !no}", true},
		{" ${ no || code == 0 } ", true},
		{"${count > 9 && name in ['x', 'y']}", true},
		{"${yes} && ${no}", false},
	}
	for _, test := range tests {
		if got := holds(t, test.src, values); got != test.want {
			t.Errorf("%s: got %t, want %t", test.src, got, test.want)
		}
	}
}

func TestConditionsThatDoNotParseShowThePlace(t *testing.T) {
	tests := []struct{ src, want string }{
		{"${a", "unclosed brace\n  ${a\n  ^"},
		{"a ==", "expected a field, value or \"(\", got the end\n  a ==\n      ^"},
		{"a matches '${b}'", "a regular expression must be constant; placeholders are not allowed in it\n  a matches '${b}'\n            ^"},
		{"a ${b}", "expected an operator or the end, got \"b\"\n  a ${b}\n    ^"},
		{"$a == 1", "unexpected '$' (use item.name for a field)\n  $a == 1\n  ^"},
	}
	for _, test := range tests {
		if _, err := ParseCondition(test.src); err == nil || err.Error() != test.want {
			t.Errorf("%s: got %v, want %s", test.src, err, test.want)
		}
	}
}

func FuzzConditionsDoNotCrash(f *testing.F) {
	f.Add("${a.b} == 'x${c}' && d[0][\"}\"] in [1]", "1")
	f.Add("${a[\"}\"]} matches 'b'", "true")
	f.Fuzz(func(_ *testing.T, src, value string) {
		c, err := ParseCondition(src)
		if err != nil {
			return
		}
		_, _ = c.Holds(func(int) (Value, error) { return Untyped(value), nil })
	})
}
