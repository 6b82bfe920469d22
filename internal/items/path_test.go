package items

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/ohler55/ojg/jp"
	"github.com/ohler55/ojg/oj"
	"pgregory.net/rapid"

	"prodigy/internal/rawjson"
)

// selectAll returns what a path selects in a document, as text.
func selectAll(t interface{ Fatalf(string, ...any) }, src, doc string) []string {
	return selectFrom(t, src, strings.NewReader(doc))
}

func selectFrom(t interface{ Fatalf(string, ...any) }, src string, doc io.Reader) []string {
	p, err := parsePath(src)
	if err != nil {
		t.Fatalf("parse %s: %v", src, err)
	}
	var got []string
	f := &peekReader{r: doc}
	err = f.each(p, p, func(raw []byte) error {
		got = append(got, string(raw))
		return nil
	})
	if err != nil {
		t.Fatalf("select %s: %v", src, err)
	}
	return got
}

func TestPathsSelectWithNumbersAsTheyAreSpelled(t *testing.T) {
	const doc = `{"items": [ {"id": 1.10, "tags": ["x", "y"]}, {"id": 1e400, "tags": []},
		{"id": 12345678901234567890, "tags": ["z"], "on": true} ], "a.b": {"z": 1, "y": 2, "x": {"deep": 1.0}}}`
	for path, want := range map[string][]string{
		"$.items[*].id":                        {"1.10", "1e400", "12345678901234567890"},
		"$.items[1]":                           {`{"id":1e400,"tags":[]}`},
		"$.items[-1].id":                       {"12345678901234567890"},
		"$.items[0:2].id":                      {"1.10", "1e400"},
		"$.items[::2].id":                      {"1.10", "12345678901234567890"},
		"$.items[::-1].id":                     {"12345678901234567890", "1e400", "1.10"},
		"$.items[*].tags[*]":                   {`"x"`, `"y"`, `"z"`},
		"$.items[?@.on].id":                    {"12345678901234567890"},
		"$.items[?(@.id > 1.2)].id":            {"1e400", "12345678901234567890"},
		"$.items[?length(@.tags)==2]":          {`{"id":1.10,"tags":["x","y"]}`},
		"$['a.b'][*]":                          {"1", "2", `{"deep":1.0}`},
		"$['a.b']['z','y']":                    {"1", "2"},
		"$..id":                                {"1.10", "1e400", "12345678901234567890"},
		"$..deep":                              {"1.0"},
		"$.items[?(@.id == $.items[0].id)].id": {"1.10"},
		"$.items":                              {`[{"id":1.10,"tags":["x","y"]},{"id":1e400,"tags":[]},{"id":12345678901234567890,"tags":["z"],"on":true}]`},
		"$.items[7]":                           nil,
		"$.missing[*]":                         nil,
		"$.items[*].id.x":                      nil,
		"items[0].id":                          {"1.10"},
	} {
		if diff := cmp.Diff(want, selectAll(t, path, doc)); diff != "" {
			t.Errorf("%s: got + want -\n%s", path, diff)
		}
	}
}

func TestAStepTakesTheFirstOfTwoMembersOfOneName(t *testing.T) {
	got := selectAll(t, "$.a[*]", `{"a": [1], "a": [2]}`)
	if diff := cmp.Diff([]string{"1"}, got); diff != "" {
		t.Error(diff)
	}
}

// documents generates JSON documents with few names, so that paths find something.
func documents() *rapid.Generator[any] {
	scalar := rapid.OneOf(
		rapid.Just[any](nil),
		rapid.Map(rapid.IntRange(-3, 12), func(n int) any { return n }),
		rapid.Map(rapid.IntRange(-3, 12), func(n int) any { return json.Number(fmt.Sprintf("%d.50", n)) }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.SampledFrom([]string{"", "a", "b", "é\"\\"}), func(s string) any { return s }),
	)
	names := rapid.SampledFrom([]string{"a", "b", "c", "items"})
	value := scalar
	for range 4 {
		inner := value
		value = rapid.OneOf(scalar,
			rapid.Map(rapid.SliceOfN(inner, 0, 5), func(l []any) any { return l }),
			rapid.Map(rapid.MapOfN(names, inner, 0, 4), func(m map[string]any) any { return m }))
	}
	return rapid.Map(rapid.MapOfN(names, value, 1, 4), func(m map[string]any) any { return m })
}

func paths() *rapid.Generator[string] {
	steps := rapid.SampledFrom([]string{
		".a", ".b", ".items", "['c']", "[*]", ".*", "[0]", "[1]", "[-1]", "[1:]", "[:2]", "[0:0]", "[5:2]", "[::2]", "[1:4:2]", "[-2:]",
		"[:-1]", "[::-1]", "['a','b']", "[1,0]", "[?@.a]", "[?@.a > 2]", "[?(@.a == 'a' || @.b)]", "[?@ < 5]",
		"[?(@.a == $.b)]", "[?length(@) > 1]", "[?@.a == 1.5]",
	})
	return rapid.Custom(func(t *rapid.T) string {
		// Only at the start: after a step that gives several values, ojg descends into the first of them alone.
		start := rapid.SampledFrom([]string{"$", "$", "$..a", "$..[0]", "$.items..b", "$..*", "$..[?length(@) > 0]", "$.items..[?length(@) == 1]"}).Draw(t, "start")
		return start + strings.Join(rapid.SliceOfN(steps, 1, 5).Draw(t, "steps"), "")
	})
}

// jpGet is the answer of ojg on its own form of the document. ok is false when it has none: it panics where a filter compares arrays.
func jpGet(path string, doc []byte) (found []any, ok bool) {
	defer func() { ok = recover() == nil }()
	return jp.MustParseString(path).Get(oj.MustParse(doc)), true
}

func TestStreamedAnswersAreThoseOfOjg(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc, err := json.Marshal(documents().Draw(t, "document"))
		if err != nil {
			t.Fatal(err)
		}
		path := paths().Draw(t, "path")
		found, ok := jpGet(path, doc)
		if !ok || strings.Contains(path, "length") {
			t.Skip("ojg panics, or the documents say that it is different")
		}
		want := make([]string, len(found))
		for i, v := range found {
			want[i] = normal(t, []byte(oj.JSON(v)))
		}
		got := selectAll(t, path, string(doc))
		if again := selectFrom(t, path, iotest.OneByteReader(bytes.NewReader(doc))); !slices.Equal(got, again) {
			t.Fatalf("%s in %s\nat once  %v\nby bytes %v", path, doc, got, again)
		}
		for i, s := range got {
			got[i] = normal(t, []byte(s))
		}
		// The order of the members of an object is the document's here and none at all there.
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(want, got) {
			t.Fatalf("%s in %s\ngot  %v\nwant %v", path, doc, got, want)
		}
	})
}

func TestTheOrderOfElementsIsThatOfOjg(t *testing.T) {
	const doc = `{"a":[[1,2,[3]],[4,[5,6]],[],[[7,8],9]]}`
	for _, path := range []string{
		"$.a[*][*]", "$.a[::-1][*]", "$.a[1:][0]", "$..[0]", "$.a..[1]", "$.a[*][::-1]", "$.a[2,1,0][*]", "$.a[?@[0]][0]",
	} {
		found, _ := jpGet(path, []byte(doc))
		var want []string
		for _, v := range found {
			want = append(want, oj.JSON(v))
		}
		if diff := cmp.Diff(want, selectAll(t, path, doc)); diff != "" {
			t.Errorf("%s: got + want -\n%s", path, diff)
		}
	}
}

func normal(t *rapid.T, raw []byte) string {
	dec := json.NewDecoder(bytes.NewReader(raw))
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("not JSON: %s: %v", raw, err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestADescentStartsFromEachElement(t *testing.T) {
	got := selectAll(t, "$.a[*]..[0]", `{"a":[[1,[2]],[3,[4]]]}`)
	if diff := cmp.Diff([]string{"2", "1", "4", "3"}, got); diff != "" {
		t.Errorf("got + want -\n%s", diff)
	}
}

func TestABadPathIsShownWithACaret(t *testing.T) {
	for src, want := range map[string]string{
		"$.items[":     "invalid JSONPath: not terminated\n  $.items[\n          ^",
		"$.items[?@.x": "invalid JSONPath: not terminated\n  $.items[?@.x\n              ^",
		"$.items[1 x]": "invalid JSONPath: invalid bracket fragment\n  $.items[1 x]\n             ^",
	} {
		_, err := parsePath(src)
		if err == nil {
			t.Errorf("%s: got no error", src)
			continue
		}
		if diff := cmp.Diff(want, err.Error()); diff != "" {
			t.Errorf("%s: got + want -\n%s", src, diff)
		}
	}
}

func FuzzParsePath(f *testing.F) {
	for _, s := range []string{"$.items[*]", "$..a[?@.b > 1 && @.c]", "$['a','b'][1:2:3]", "$[?match(@.x, 'a.*')]"} {
		f.Add(s, `{"items":[1,{"a":[2]}]}`)
	}
	f.Fuzz(func(t *testing.T, src, doc string) {
		p, err := parsePath(src)
		if err != nil {
			return
		}
		in := &peekReader{r: strings.NewReader(doc)}
		_ = in.each(p, p, func(raw []byte) error {
			if !rawjson.Valid(raw) {
				t.Errorf("%s selects %q, which is no JSON", src, raw)
			}
			return nil
		})
	})
}
