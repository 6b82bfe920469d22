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
	words := []string{fmt.Sprintf("%d unchanged", d.Unchanged)}
	for _, c := range []struct {
		n    int
		what string
	}{{d.Changed, "changed" + by(d)}, {d.New, "new"}, {d.Failed, "failed before"}, {d.Forced, "forced"}, {
		d.LeftOut,
		"left out",
	}, {d.Gone, "gone"}} {
		if c.n > 0 {
			words = append(words, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	return strings.Join(words, ", ")
}

// by names the parts by which most items have changed.
func by(d events.Difference) string {
	parts := slices.Collect(maps.Keys(d.By))
	slices.SortFunc(parts, func(a, b string) int { return cmp.Or(cmp.Compare(d.By[b], d.By[a]), cmp.Compare(a, b)) })
	var kinds []string
	counts, names := map[string]int{}, map[string][]string{}
	more := d.ByMore
	for i, part := range parts {
		if i >= partsShown {
			more += d.By[part]
			continue
		}
		kind, name, _ := strings.Cut(part, ": ")
		if counts[kind] == 0 {
			kinds = append(kinds, kind)
		}
		counts[kind] += d.By[part]
		if name != "" {
			names[kind] = append(names[kind], name)
		}
	}
	words := check.Each(kinds, func(kind string) string {
		list := strings.Join(names[kind], ", ")
		if list != "" {
			list = ": " + list
		}
		return fmt.Sprintf("%d by %s%s", counts[kind], kind, list)
	})
	if more > 0 {
		words = append(words, fmt.Sprintf("%d by others", more))
	}
	if len(words) == 0 {
		return ""
	}
	return " (" + strings.Join(words, ", ") + ")"
}
