package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"prodigy/internal/check"
	"prodigy/internal/events"
)

// partsShown is how many parts of fingerprints are named.
const partsShown = 5

// Difference says how the items of a job differ from those of an earlier one, as in "812 unchanged, 9 changed
// (7 by uses: convert.sh, 2 by data), 14 new, 3 gone".
func Difference(d events.Difference) string {
	return strings.Join(check.Said(
		fmt.Sprintf("%d unchanged", d.Unchanged),
		check.Some("%d changed", d.Changed)+by(d),
		check.Some("%d new", d.New),
		check.Some("%d failed before", d.Failed),
		check.Some("%d forced", d.Forced),
		check.Some("%d left out", d.LeftOut),
		check.Some("%d gone", d.Gone),
	), ", ")
}

// mostFirst returns what was counted, the most frequent first.
func mostFirst[K cmp.Ordered](counts map[K]int) []K {
	return slices.SortedFunc(maps.Keys(counts), func(a, b K) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
}

// by names the parts by which most items have changed.
func by(d events.Difference) string {
	parts := mostFirst(d.By)
	more := d.ByMore
	for _, part := range parts[min(partsShown, len(parts)):] {
		more += d.By[part]
	}
	words := check.Each(parts[:min(partsShown, len(parts))], func(part string) string {
		return fmt.Sprintf("%d by %s", d.By[part], part)
	})
	if more > 0 {
		words = append(words, fmt.Sprintf("%d by others", more))
	}
	if len(words) == 0 {
		return ""
	}
	return " (" + strings.Join(words, ", ") + ")"
}
