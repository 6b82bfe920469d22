//go:build unix

package bench

import (
	"fmt"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

// row is one line of the table.
type row struct {
	what     string
	values   []float64
	unit     string  // empty: a ratio
	must     float64 // 0: there is no goal
	aim      float64
	atMost   bool   // the smaller the better
	skipped  string // why there are no values
	absolute string // what is behind a ratio
}

type table []row

func (s *stage) add(rows ...row) { s.table = append(s.table, rows...) }

func (r row) goal(v float64) string {
	if v == 0 {
		return ""
	}
	sign := "≥ "
	if r.atMost {
		sign = "≤ "
	}
	return sign + r.number(v)
}

func (r row) number(v float64) string {
	if r.unit == "" {
		return fmt.Sprintf("%.2f", v)
	}
	if v >= 100 {
		return fmt.Sprintf("%.0f %s", v, r.unit)
	}
	return fmt.Sprintf("%.3g %s", v, r.unit)
}

func (r row) middle() string {
	if len(r.values) == 0 {
		return "skipped"
	}
	return r.number(median(r.values))
}

func (r row) quartiles() string {
	if len(r.values) < 2 {
		return ""
	}
	return r.number(quantile(r.values, 0.25)) + " to " + r.number(quantile(r.values, 0.75))
}

// verdict says which goal is reached.
func (r row) verdict() string {
	if len(r.values) == 0 || r.must == 0 {
		return r.skipped
	}
	reached := func(goal float64) bool {
		if r.atMost {
			return median(r.values) <= goal
		}
		return median(r.values) >= goal
	}
	switch {
	case r.aim != 0 && reached(r.aim):
		return "aim"
	case reached(r.must):
		return "yes"
	}
	return "missed"
}

func (r row) cells() []string {
	return []string{r.what, r.goal(r.must), r.goal(r.aim), r.middle(), r.quartiles(), r.verdict(), r.absolute}
}

var head = []string{"what", "must", "aim", "median", "quartiles", "reached", "behind it"}

func (t table) text() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, strings.Join(head, "\t"))
	for _, r := range t {
		_, _ = fmt.Fprintln(w, strings.Join(r.cells(), "\t"))
	}
	_ = w.Flush() // into memory
	return b.String()
}

func (t table) markdown(machine string, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Benchmarks\n\nMade by `make bench` on %s, %s. ", now.Format(time.DateOnly), machine)
	b.WriteString(about)
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat(" --- |", len(head)))
	for _, r := range t {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(r.cells(), " | "))
	}
	return b.String()
}

const about = `All contestants of a row ran in turn, several times; the table has the median of the ratios
and the quartiles. An item is ` + "`sh -c 'true N'`" + `, or a program that does nothing where the row says so. A ratio of throughput is prodigy's
to the other's: the larger the better. CPU time includes that of the children. Peak memory is that of the largest process.

`

// machine says what the bench ran on.
func machine() string {
	return fmt.Sprintf("%d cores, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}
