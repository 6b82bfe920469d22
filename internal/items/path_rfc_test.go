package items

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What docs/items.md says of the differences between paths and RFC 9535.
func TestPathsDifferFromTheRFCAsDocumented(t *testing.T) {
	const doc = `{"a":[{"n":1,"f":false,"l":[1]},{"n":2,"d":[{"n":3}]}],"l":[1],"b":{"c":1},"t":"é","u":"ab"}`
	for _, src := range []string{"$.a[0:2,1]", "$.a[?@.n,1]", "$ .a", "$.a [0]", "$.a[?value(@.n) == 1]"} {
		if _, err := parsePath(src); err == nil {
			t.Errorf("%s: is accepted, want it refused", src)
		}
	}
	for src, want := range map[string][]string{
		"$['b','l']":               {`{"c":1}`, "[1]"},
		"$.a[1,0].n":               {"2", "1"},
		"$.a[?@.f == false].n":     {"1"},
		"$.a[?@.f <= false].n":     nil,
		"$..n":                     {"1", "3", "2"},
		"$.a..n":                   {"1", "3", "2"},
		"b.c":                      {"1"},
		"$.a[01].n":                {"2"},
		"$.a[?@.n in [1]].n":       {"1"},
		"$.a[?@.missing == null]":  nil,
		"$[?length(@) > 0]":        {`[{"n":1,"f":false,"l":[1]},{"n":2,"d":[{"n":3}]}]`, "[1]", `"é"`, `"ab"`},
		"$[?length(@) > $.b.c]":    {`[{"n":1,"f":false,"l":[1]},{"n":2,"d":[{"n":3}]}]`, `"é"`, `"ab"`},
		"$[?length(@) == 2]":       {`[{"n":1,"f":false,"l":[1]},{"n":2,"d":[{"n":3}]}]`, `"é"`, `"ab"`},
		"$[?match(@, 'a|x')]":      {`"ab"`},
		"$[?match(@, '(a|x)')]":    nil,
		"$.a[?count(@.*) == 3].n":  {"1"},
		"$.a[?search('x', 'X')].n": nil,
	} {
		if diff := cmp.Diff(want, selectAll(t, src, doc)); diff != "" {
			t.Errorf("%s: got + want -\n%s", src, diff)
		}
	}
	p, err := parsePath("$.a[?@.l == $.l]")
	if err != nil {
		t.Fatal(err)
	}
	err = (&peekReader{r: strings.NewReader(doc)}).each(p, p, func([]byte) error { return nil })
	if err == nil || !strings.HasPrefix(err.Error(), "json_path: cannot be evaluated on this data") {
		t.Errorf("got %v, want that arrays are not compared", err)
	}
}
