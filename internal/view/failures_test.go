package view_test

import (
	"testing"

	"pgregory.net/rapid"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/view"
)

// Items fail, and some of them succeed when they are run again. The example of a group of failures is one that stands.
func TestTheExampleOfAGroupStands(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		failed, groups, last := map[int]bool{}, 0, 0
		var list []events.Event
		for range rapid.IntRange(1, 60).Draw(t, "ends") {
			i := rapid.IntRange(0, 9).Draw(t, "item")
			list = append(list, begun(i))
			if failed[i] = rapid.Bool().Draw(t, "fails"); failed[i] {
				last = i
				list = append(list, broken(i, errorpolicy.DLQ))
			} else {
				list = append(list, done(i))
			}
		}
		j, _ := fold(view.New(), list...)
		for _, g := range j.Failures.Groups() {
			groups++
			e := g.Example
			if e.ItemID != "" && !failed[e.ItemIndex] {
				t.Fatalf("the example is %s, which has succeeded", e.ItemID)
			}
			if e.ItemID == "" && failed[last] {
				t.Fatalf("no example, but %s has failed last", item(last))
			}
			if g.Title() == "" || e.Status() != errorpolicy.Dead {
				t.Fatalf("the group is called %q, its items are %s", g.Title(), e.Status())
			}
		}
		if want := min(j.Failures.Count(), 1); groups != want {
			t.Fatalf("%d groups, want %d", groups, want)
		}
	})
}
