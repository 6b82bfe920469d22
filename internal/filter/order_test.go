package filter

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"prodigy/internal/rawjson"
)

// documents generates JSON documents with few names.
func documents() *rapid.Generator[any] {
	value := rapid.OneOf(
		rapid.Just[any](nil),
		rapid.Map(rapid.IntRange(-3, 12), func(n int) any { return n }),
		rapid.Map(rapid.IntRange(-3, 12), func(n int) any { return json.Number(fmt.Sprintf("%d.50", n)) }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.SampledFrom([]string{"", "a", "b", "é\"\\"}), func(s string) any { return s }),
	)
	names := rapid.SampledFrom([]string{"a", "b", "c", "items"})
	for range 4 {
		inner := value
		value = rapid.OneOf(inner,
			rapid.Map(rapid.SliceOfN(inner, 0, 5), func(l []any) any { return l }),
			rapid.Map(rapid.MapOfN(names, inner, 0, 4), func(m map[string]any) any { return m }))
	}
	return rapid.Map(rapid.MapOfN(names, value, 1, 4), func(m map[string]any) any { return m })
}

func TestTheOrderedFormHasTheOrderOfValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Custom(func(t *rapid.T) string {
			return fmt.Sprintf("%d.%02de%d", rapid.IntRange(-20, 20).Draw(t, "whole"), rapid.IntRange(0, 99).Draw(t, "part"), rapid.IntRange(-3, 3).Draw(t, "exponent"))
		})
		a, b := number.Draw(t, "a"), number.Draw(t, "b")
		form := func(raw string) []byte { return ValueOf([]byte(raw)).AppendOrdered(nil) }
		if got, want := bytes.Compare(form(a), form(b)), compareNumbers(a, b); got != want {
			t.Fatalf("%s and %s: got %d, want %d", a, b, got, want)
		}
		x, _ := json.Marshal(documents().Draw(t, "x"))
		y, _ := json.Marshal(documents().Draw(t, "y"))
		if got, want := bytes.Equal(form(string(x)), form(string(y))), ValueOf(x).Equal(ValueOf(y)); got != want {
			t.Fatalf("%s and %s: the same form is %t, equal is %t", x, y, got, want)
		}
		s, u := rapid.String().Draw(t, "s"), rapid.String().Draw(t, "u")
		if got := bytes.Compare(appendText(nil, s), appendText(nil, u)); got != cmp.Compare(s, u) {
			t.Fatalf("%q and %q: got %d", s, u, got)
		}
	})
}

func FuzzParseOrder(f *testing.F) {
	for _, s := range []string{"a DESC NULLS FIRST, item.b[0]", `["x y"] asc`, "a.b, c nulls last", "desc"} {
		f.Add(s, `{"a":[1,{"b":2}]}`, `{"a":"x","desc":null}`)
	}
	f.Fuzz(func(t *testing.T, src, x, y string) {
		o, err := ParseOrder(src)
		if err != nil || !rawjson.Valid([]byte(x)) || !rawjson.Valid([]byte(y)) {
			return
		}
		a, b := o.AppendKey(nil, []byte(x)), o.AppendKey(nil, []byte(y))
		if !bytes.Equal(a, b) && (bytes.HasPrefix(a, b) || bytes.HasPrefix(b, a)) {
			t.Errorf("%s: the key %x of %s and %x of %s: one begins with the other", src, a, x, b, y)
		}
	})
}
