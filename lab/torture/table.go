//go:build unix

package torture

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// table sums up the rounds by kind of job.
type table struct {
	order []string
	sums  map[string]*sum
	hits  map[string]int // instant → kills
}

type sum struct{ rounds, kills, runs, items, again, unlogged, overlaps, violations int }

func newTable() *table { return &table{sums: map[string]*sum{}, hits: map[string]int{}} }

func (t *table) add(r *round, err error) {
	s := t.sums[r.kind.name]
	if s == nil {
		s = &sum{}
		t.sums[r.kind.name] = s
		t.order = append(t.order, r.kind.name)
	}
	s.rounds++
	s.kills += r.kills
	s.runs += r.runs
	s.items += len(r.fates)
	s.again += r.again
	s.unlogged += r.unlogged
	s.overlaps += len(r.overlaps)
	if err != nil {
		s.violations++
	}
	for name, n := range r.hits {
		t.hits[name] += n
	}
}

func (t *table) print(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(tw, "job\trounds\tkills\truns\titems\trun again\ttries not in the log\toutlived the resume\tlosses\t")
	var all sum
	for _, name := range t.order {
		s := t.sums[name]
		printSum(tw, name, *s)
		all.rounds, all.kills, all.runs = all.rounds+s.rounds, all.kills+s.kills, all.runs+s.runs
		all.items, all.again, all.unlogged = all.items+s.items, all.again+s.again, all.unlogged+s.unlogged
		all.overlaps, all.violations = all.overlaps+s.overlaps, all.violations+s.violations
	}
	printSum(tw, "all", all)
	_ = tw.Flush() // to a terminal
	t.printInstants(w)
}

// printInstants tells when the kills came.
func (t *table) printInstants(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(tw, "kills\twhen\t")
	for _, name := range append([]string{atATime, atADelay}, instantNames()...) {
		_, _ = fmt.Fprintf(tw, "%d\t%s\t\n", t.hits[name], name)
	}
	_ = tw.Flush() // to a terminal
}

func printSum(w io.Writer, name string, s sum) {
	_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n",
		name, s.rounds, s.kills, s.runs, s.items, s.again, s.unlogged, s.overlaps, s.violations)
}
