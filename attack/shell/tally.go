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

	scripts         int
	silent          int // scripts of which nothing is said: all of them are run
	silentHarmless  int // of these, the ones that ran no data
	unsaid, outside int // the others: within the promise, and outside it
	refused, warned alarm
	outsideFrom     map[string]int // by the sentence of the docs

	holes classes
	log   io.Writer // gets each new kind of unsaid script at once; may be nil
}

// alarm counts the scripts which are refused, or warned of.
type alarm struct {
	scripts  int
	tried    int            // the sample of them that was run
	harmless int            // of the sample
	by       map[string]int // the harmless ones by code
	kinds    classes
}

// otherFaults are codes of errors that are not about running data.
var otherFaults = []string{"PS027", "other"}

// estimate returns how many of the scripts are harmless, judged by the sample.
func (a *alarm) estimate() float64 {
	if a.tried == 0 {
		return 0
	}
	return float64(a.scripts) * float64(a.harmless) / float64(a.tried)
}

func newTally(alarms int) *tally {
	return &tally{
		outsideFrom: map[string]int{},
		holes:       classes{found: trial.unsaid, most: 1000},
		refused:     alarm{by: map[string]int{}, kinds: classes{found: func(t trial) bool { return !t.ran && t.verdict.refused }, most: alarms}},
		warned:      alarm{by: map[string]int{}, kinds: classes{found: func(t trial) bool { return !t.ran && !t.verdict.refused && !t.verdict.silent() }, most: alarms}},
	}
}

// add counts a script. What is to be reduced is reduced in l.
func (t *tally) add(ctx context.Context, l *lab, s *script, found trial) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.scripts++
	if !found.verdict.silent() {
		a := &t.warned
		if found.verdict.refused {
			a = &t.refused
		}
		return a.add(ctx, l, s, found)
	}
	t.silent++
	switch {
	case !found.ran:
		t.silentHarmless++
	case s.outside() != "":
		t.outside++
		t.outsideFrom[s.outside()]++
	default:
		t.unsaid++
		known := len(t.holes.list)
		err := t.holes.add(ctx, l, s)
		if len(t.holes.list) > known && t.log != nil {
			_, _ = fmt.Fprintf(t.log, "unsaid: %s\n%s\n", t.holes.list[known].script, t.holes.list[known].script.workflowText())
		}
		return err
	}
	return nil
}

func (a *alarm) add(ctx context.Context, l *lab, s *script, found trial) error {
	a.scripts++
	if !found.tried {
		return nil
	}
	a.tried++
	if found.ran || s.sink.notAsRoot {
		return nil
	}
	if slices.Contains(otherFaults, found.verdict.codes[0]) {
		a.tried-- // it says nothing about data that is run
		return nil
	}
	a.harmless++
	a.by[found.verdict.codes[0]]++
	return a.kinds.add(ctx, l, s)
}

func (t *tally) print(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	harmless := float64(t.silentHarmless) + t.refused.estimate() + t.warned.estimate()
	for _, row := range []struct {
		what string
		n    int
		note string
	}{
		{"scripts", t.scripts, ""},
		{"nothing said, run", t.silent, fmt.Sprintf("%d harmless", t.silentHarmless)},
		{"unsaid", t.unsaid, fmt.Sprintf("of %d kinds", len(t.holes.list))},
		{"unsaid, outside the promise", t.outside, counts(t.outsideFrom)},
		{"refused", t.refused.scripts, t.refused.summary(harmless)},
		{"warned of", t.warned.scripts, t.warned.summary(harmless)},
		{"harmless in all, estimated", int(harmless + 0.5), ""},
	} {
		_, _ = fmt.Fprintf(tw, "%s\t%d\t%s\n", row.what, row.n, row.note)
	}
	_ = tw.Flush() // to a terminal
	printClasses(w, "unsaid", &t.holes)
	printClasses(w, "harmless, refused", &t.refused.kinds)
	printClasses(w, "harmless, warned of", &t.warned.kinds)
}

// summary says what the sample of the scripts showed, and what share of all harmless scripts that comes to.
func (a *alarm) summary(harmless float64) string {
	if a.tried == 0 {
		return "none run"
	}
	return fmt.Sprintf("%d run, %d of these harmless; about %.1f%% of all harmless scripts: %s", a.tried, a.harmless, 100*a.estimate()/max(harmless, 1), counts(a.by))
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
