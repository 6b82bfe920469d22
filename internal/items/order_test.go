package items

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"prodigy/internal/workflow"
)

// inline makes an input of items.
func inline(raws ...string) workflow.Input {
	in := workflow.Input{Items: []json.RawMessage{}}
	for _, raw := range raws {
		in.Items = append(in.Items, json.RawMessage(raw))
	}
	return in
}

func TestSortByPutsItemsInOrder(t *testing.T) {
	mixed := []string{`{"v":{}}`, `{"v":"b"}`, `{"v":[2]}`, `{"v":2}`, `{"v":null}`, `{"v":true}`, `{}`, `{"v":"B"}`, `{"v":10}`, `{"v":false}`, `{"v":[1,9]}`, `{"v":-1e400}`}
	for _, c := range []struct {
		by   string
		in   []string
		want string
	}{
		{"v", mixed, `-1e400`},
		{"item.v", []string{`{"v":1.10,"n":1}`, `{"v":1.1,"n":2}`, `{"v":1,"n":3}`, `{"v":0.5,"n":4}`}, `4 3 1 2`},
		{"v DESC", []string{`{"v":1,"n":1}`, `{"n":2}`, `{"v":3,"n":3}`, `{"v":3.0,"n":4}`}, `3 4 1 2`},
		{"v desc nulls first", []string{`{"v":1,"n":1}`, `{"n":2}`, `{"v":3,"n":3}`}, `2 3 1`},
		{"v NULLS FIRST", []string{`{"v":1,"n":1}`, `{"v":null,"n":2}`}, `2 1`},
		{"v NULLS LAST, n DESC", []string{`{"n":1}`, `{"v":"a","n":2}`, `{"n":3}`, `{"v":"a","n":4}`}, `4 2 3 1`},
		{`v["a b"][0] asc`, []string{`{"v":{"a b":["y"]},"n":1}`, `{"v":{"a b":["x","z"]},"n":2}`}, `2 1`},
		{"v, n", []string{`{"v":"a\u0000","n":1}`, `{"v":"a","n":2}`, `{"v":"a\u0000b","n":3}`, `{"v":"aa","n":4}`, `{"v":"","n":5}`}, `5 2 1 3 4`},
		{"v desc, n", []string{`{"v":"a","n":1}`, `{"v":"ab","n":2}`, `{"v":"a","n":0}`}, `2 0 1`},
		{"desc desc", []string{`{"desc":1,"n":1}`, `{"desc":2,"n":2}`}, `2 1`},
		{"nulls", []string{`{"nulls":2,"n":1}`, `{"nulls":1,"n":2}`}, `2 1`},
	} {
		got, err := selectItems(&workflow.Map{Input: inline(c.in...), SortBy: workflow.Text{Value: c.by}}, Env{})
		if err != nil {
			t.Fatalf("%s: %v", c.by, err)
		}
		if c.by == "v" {
			want := []string{`{"v":false}`, `{"v":true}`, `{"v":-1e400}`, `{"v":2}`, `{"v":10}`, `{"v":"B"}`, `{"v":"b"}`, `{"v":[1,9]}`, `{"v":[2]}`, `{"v":{}}`, `{"v":null}`, `{}`}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("mixed types: got + want -\n%s", diff)
			}
			continue
		}
		var order []string
		for _, raw := range got {
			var item struct{ N json.Number }
			if err := json.Unmarshal([]byte(raw), &item); err != nil {
				t.Fatal(err)
			}
			order = append(order, item.N.String())
		}
		if strings.Join(order, " ") != c.want {
			t.Errorf("%s: got %s, want %s", c.by, order, c.want)
		}
	}
}

func TestASorterInAFileSortsLikeOneInMemory(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	type pair struct{ key, data string }
	var all []pair
	dir := t.TempDir()
	s := &sorter{dir: dir, memory: 10_000}
	for i := range 5000 {
		p := pair{fmt.Sprint("same beginning ", rnd.IntN(900)), fmt.Sprint(i, strings.Repeat("x", rnd.IntN(40)))}
		if i == 2500 {
			p.data = strings.Repeat("y", 30_000)
		}
		all = append(all, p)
		if err := s.add([]byte(p.key), []byte(p.data)); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.runs) < 20 {
		t.Fatalf("got %d runs, want many", len(s.runs))
	}
	slices.SortStableFunc(all, func(a, b pair) int { return cmp.Compare(a.key, b.key) })
	n := 0
	err := s.each(func(key, data []byte) error {
		if got := (pair{string(key), string(data)}); got != all[n] {
			return fmt.Errorf("record %d: got %v, want %v", n, got, all[n])
		}
		n++
		return nil
	})
	if err != nil || n != len(all) {
		t.Errorf("got %d records, %v, want %d", n, err, len(all))
	}
	s.close()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v, want nothing left", left, err)
	}
}

func TestASortEndsEarlyAndSaysWhatFailed(t *testing.T) {
	s := &sorter{dir: t.TempDir() + "/none", memory: 100}
	var err error
	for i := 0; i < 100 && err == nil; i++ {
		err = s.add([]byte("key"), nil)
	}
	if err == nil || !strings.HasPrefix(err.Error(), "sort the items: ") {
		t.Errorf("got %v, want what failed", err)
	}
	one := 1
	got, err := selectItems(&workflow.Map{Input: inline("3", "1", "2"), SortBy: workflow.Text{Value: "item"}, MaxItems: &one}, Env{})
	if err != nil || len(got) != 1 || got[0] != "1" {
		t.Errorf("got %v, %v, want the least", got, err)
	}
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	for _, err := range Select(ctx, &workflow.Map{Input: inline("3", "1", "2"), SortBy: workflow.Text{Value: "item"}}, Env{}) {
		if err != nil && !errors.Is(err, stop) {
			t.Error(err)
		}
		cancel(stop)
	}
}

func TestDistinctKeepsTheFirst(t *testing.T) {
	in := inline(`{"a":1,"b":2}`, `{"b":2.0,"a":1e0}`, `{"a":1}`, `{"a":"1"}`, `{}`, `{"a":null}`)
	for field, want := range map[string][]string{
		"item":   {`{"a":1,"b":2}`, `{"a":1}`, `{"a":"1"}`, `{}`, `{"a":null}`},
		"item.a": {`{"a":1,"b":2}`, `{"a":"1"}`, `{}`},
		"b":      {`{"a":1,"b":2}`, `{"a":1}`},
	} {
		got, err := selectItems(&workflow.Map{Input: in, Distinct: workflow.Text{Value: field}}, Env{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s: got + want -\n%s", field, diff)
		}
	}
}

// Each stage sees what the one before has left.
func TestThePipelineHasOneOrder(t *testing.T) {
	two := 2
	m := &workflow.Map{
		Input:    workflow.Input{Items: inline(`{"all":[{"n":5},{"n":1},{"n":5,"x":1},{"n":9},{"n":3},{"n":2},{"n":3,"x":1},{"n":8}]}`).Items},
		JSONPath: workflow.Text{Value: "$[*].all[*]"}, Filter: workflow.Text{Value: "n < 9"}, SortBy: workflow.Text{Value: "n DESC"}, Distinct: workflow.Text{Value: "n"}, Offset: 1, MaxItems: &two,
	}
	got, err := selectItems(m, Env{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff([]string{`{"n":5}`, `{"n":3}`}, got); diff != "" {
		t.Errorf("got + want -\n%s", diff)
	}
}

func TestAKeyNamesTheItems(t *testing.T) {
	m := &workflow.Map{Input: inline(`{"k":"src/a.go"}`, `{"k":1.10}`, `{"k":true}`, `{"k":"item_0"}`, `{"k":"é ß"}`), Key: workflow.Text{Value: "item.k"}}
	var got []string
	for it, err := range Select(t.Context(), m, Env{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, it.ID)
	}
	if diff := gocmp.Diff([]string{"src/a.go", "1.10", "true", "item_0", "é ß"}, got); diff != "" {
		t.Errorf("got + want -\n%s", diff)
	}
}

func TestABadKeyNamesItsItem(t *testing.T) {
	for raw, want := range map[string]string{
		`{"k":"a"}`:    `key k: item_1 has the same key as item_0, "a"`,
		`{"k":""}`:     `key k: item_1 has an empty key`,
		`{"k":null}`:   `key k: item_1 has no key`,
		`{}`:           `key k: item_1 has no key`,
		`{"k":[1]}`:    `key k: item_1 has the key an array, which must be a string, a number or a boolean`,
		`{"k":{}}`:     `key k: item_1 has the key an object, which must be a string, a number or a boolean`,
		`{"k":"a\nb"}`: `key k: item_1 has the key "a\nb", which must not contain control characters`,
		`{"k":" a"}`:   `key k: item_1 has the key " a", which must not start or end with a space`,
		`{"k":-5}`:     `key k: item_1 has the key "-5", which must not start with a dash`,
		`{"k":"a "}`:   `key k: item_1 has the key "a ", which must not start or end with a space`,
		`{"k":"` + strings.Repeat("x", maxKey+1) + `"}`: `key k: item_1 has a key of 513 bytes; the maximum is 512`,
	} {
		var last error
		for _, err := range Select(t.Context(), &workflow.Map{Input: inline(`{"k":"a"}`, raw), Key: workflow.Text{Value: "k"}}, Env{}) {
			last = err
		}
		var bad *KeyError
		if !errors.As(last, &bad) || last.Error() != want {
			t.Errorf("%.40s\ngot  %v\nwant %s", raw, last, want)
		}
	}
}

func TestExpressionsThatDoNotParseAreShownWithACaret(t *testing.T) {
	for _, c := range []struct{ name, src, want string }{
		{"sort_by", "a DSC", "sort_by: expected \",\" or ASC, DESC or NULLS, got \"DSC\"\n  a DSC\n    ^"},
		{"sort_by", "a,", "sort_by: expected the path of a field, got the end\n  a,\n    ^"},
		{"sort_by", "a NULLS MAYBE", "sort_by: expected FIRST or LAST after NULLS, got \"MAYBE\"\n  a NULLS MAYBE\n          ^"},
		{"sort_by", "-a", "sort_by: unexpected '-'\n  -a\n  ^"},
		{"sort_by", "a[x]", "sort_by: expected an index or a name in quotes, got \"x\"\n  a[x]\n    ^"},
		{"distinct", "a b", "distinct: expected the end of the field path, got \"b\"\n  a b\n    ^"},
		{"key", "a ==", "key: expected the end of the field path, got \"==\"\n  a ==\n    ^"},
		{"key", "$.a", "key: unexpected '$' (use item.name for a field)\n  $.a\n  ^"},
	} {
		m := &workflow.Map{}
		switch c.name {
		case "sort_by":
			m.SortBy.Value, m.SortBy.Pos.Line = c.src, 7
		case "distinct":
			m.Distinct.Value, m.Distinct.Pos.Line = c.src, 7
		default:
			m.Key.Value, m.Key.Pos.Line = c.src, 7
		}
		if diff := gocmp.Diff([]workflow.Problem{{Line: 7, Message: c.want}}, Check(m)); diff != "" {
			t.Errorf("%s: got + want -\n%s", c.src, diff)
		}
	}
}
