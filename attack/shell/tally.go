//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
)

// tally counts what came of the scripts. It is safe for concurrent use.
type tally struct {
	mu sync.Mutex

	scripts, ran, refused, warned    int
	unsaid, outside                  int // that ran data and of which nothing was said: within the promise, outside it
	harmlessRefused, harmlessWarned  int
	refusedBy, warnedBy, outsideFrom map[string]int // harmless ones by code, those outside by the sentence of the docs

	holes, refusals, warnings classes
}

func newTally(alarms int) *tally {
	return &tally{
		refusedBy: map[string]int{}, warnedBy: map[string]int{}, outsideFrom: map[string]int{},
		holes:    classes{found: trial.unsaid, most: 1000},
		refusals: classes{found: func(t trial) bool { return !t.ran && t.verdict.refused }, most: alarms},
		warnings: classes{found: func(t trial) bool { return !t.ran && !t.verdict.refused && !t.verdict.silent() }, most: alarms},
	}
}

// add counts a script. What is to be reduced is reduced in l.
func (t *tally) add(ctx context.Context, l *lab, s *script, found trial) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.scripts++
	said := !found.verdict.refused && !found.verdict.silent()
	if found.ran {
		t.ran++
	}
	if found.verdict.refused {
		t.refused++
	}
	if said {
		t.warned++
	}
	switch {
	case found.unsaid() && s.outside() != "":
		t.outside++
		t.outsideFrom[s.outside()]++
	case found.unsaid():
		t.unsaid++
		return t.holes.add(ctx, l, s)
	case s.sink.notAsRoot && !found.ran:
	case !found.ran && found.verdict.refused:
		t.harmlessRefused++
		t.refusedBy[found.verdict.codes[0]]++
		return t.refusals.add(ctx, l, s)
	case !found.ran && said:
		t.harmlessWarned++
		t.warnedBy[found.verdict.codes[0]]++
		return t.warnings.add(ctx, l, s)
	}
	return nil
}

func (t *tally) print(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	harmless := t.scripts - t.ran
	for _, row := range []struct {
		what string
		n    int
		note string
	}{
		{"scripts", t.scripts, ""},
		{"ran data", t.ran, ""},
		{"refused", t.refused, ""},
		{"warned of", t.warned, ""},
		{"unsaid", t.unsaid, fmt.Sprintf("of %d kinds", len(t.holes.list))},
		{"unsaid, outside the promise", t.outside, counts(t.outsideFrom)},
		{"harmless", harmless, ""},
		{"harmless, refused", t.harmlessRefused, share(t.harmlessRefused, harmless) + counts(t.refusedBy)},
		{"harmless, warned of", t.harmlessWarned, share(t.harmlessWarned, harmless) + counts(t.warnedBy)},
	} {
		_, _ = fmt.Fprintf(tw, "%s\t%d\t%s\n", row.what, row.n, row.note)
	}
	_ = tw.Flush() // to a terminal
	printClasses(w, "unsaid", &t.holes)
	printClasses(w, "harmless, refused", &t.refusals)
	printClasses(w, "harmless, warned of", &t.warnings)
}

func share(n, of int) string {
	if of == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f%% ", 100*float64(n)/float64(of))
}

// counts returns what is counted in m, the most frequent first.
func counts(m map[string]int) string {
	var list []string
	for _, key := range slices.SortedFunc(maps.Keys(m), func(a, b string) int { return m[b] - m[a] }) {
		list = append(list, fmt.Sprintf("%d: %s", m[key], key))
	}
	return strings.Join(list, "; ")
}

func printClasses(w io.Writer, what string, cs *classes) {
	if len(cs.list) == 0 {
		return
	}
	_, _ = fmt.Fprintf(w, "\n== %s: %d kinds", what, len(cs.list))
	if cs.later > 0 {
		_, _ = fmt.Fprintf(w, ", and %d scripts that were not reduced", cs.later)
	}
	_, _ = fmt.Fprintln(w)
	for _, c := range cs.sorted() {
		_, _ = fmt.Fprintf(w, "\n-- %d: %s\n%s", c.count, c.script, c.script.workflowText())
		if v := c.script.sink.env; v.name != "" {
			_, _ = fmt.Fprintf(w, "(env: {%s: %q})\n", v.name, v.value)
		}
		if c.trial.ran {
			_, _ = fmt.Fprintf(w, "ran in %s by %q\n", c.trial.shell, c.trial.payload)
		}
		if c.trial.verdict.message != "" {
			_, _ = fmt.Fprintf(w, "said: %s\n", c.trial.verdict.message)
		}
	}
}
