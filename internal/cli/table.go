package cli

import (
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/clipperhouse/displaywidth"
)

// table prints rows in columns, each as wide as its widest cell. On a terminal no row is wider than that: columns are left out and cells cut,
// but never those of the first column, which are ids to copy.
type table struct {
	w        io.Writer
	look     look
	optional []string // headings of columns that may be left out, the first of them first
	aligned  *tabwriter.Writer
	rows     [][]string // for a terminal
}

// newTable returns a table with the given headings.
func newTable(w io.Writer, k look, optional []string, head ...string) *table {
	t := &table{w: w, look: k, optional: optional}
	if k.width == 0 {
		t.aligned = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	}
	t.row(head...)
	return t
}

// row adds a row, whose cells are visible text of one line.
func (t *table) row(cells ...string) {
	if t.aligned == nil {
		t.rows = append(t.rows, cells)
		return
	}
	_, _ = io.WriteString(t.aligned, strings.Join(cells, "\t")+"\n") // it keeps it in memory
}

// flush prints the rows.
func (t *table) flush() error {
	if t.aligned != nil {
		return t.aligned.Flush()
	}
	columns := t.columns()
	widths := t.fit(columns)
	var b strings.Builder
	for _, row := range t.rows {
		var line strings.Builder
		for i, c := range columns {
			text := cut(widths[i], strings.ReplaceAll(row[c], "\t", " "))
			if i < len(columns)-1 {
				text += strings.Repeat(" ", widths[i]-displaywidth.String(plain(text))+columnGap)
			}
			line.WriteString(text)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(t.w, b.String())
	return err
}

const (
	columnGap   = 2
	columnFloor = 20 // columns, of a cell that is cut while a column can be left out instead
)

// columns returns the columns that are printed.
func (t *table) columns() []int {
	var columns []int
	for i := range t.rows[0] {
		columns = append(columns, i)
	}
	for _, name := range t.optional {
		need := columnGap * (len(columns) - 1)
		for i, width := range t.natural(columns) {
			if i > 0 {
				width = min(width, columnFloor)
			}
			need += width
		}
		if need <= t.look.width {
			break
		}
		columns = slices.DeleteFunc(columns, func(c int) bool { return t.rows[0][c] == name })
	}
	return columns
}

// natural returns how wide the cells of columns are.
func (t *table) natural(columns []int) []int {
	widths := make([]int, len(columns))
	for _, row := range t.rows {
		for i, c := range columns {
			widths[i] = max(widths[i], displaywidth.String(plain(row[c])))
		}
	}
	return widths
}

// fit returns how wide the columns are printed: the widest ones are made narrower until all fit.
func (t *table) fit(columns []int) []int {
	widths := t.natural(columns)
	left := t.look.width - columnGap*(len(columns)-1)
	for _, width := range widths {
		left -= width
	}
	for ; left < 0; left++ {
		widest := 0
		for i := range widths {
			if i > 0 && (widest == 0 || widths[i] >= widths[widest]) {
				widest = i
			}
		}
		if widest == 0 || widths[widest] <= 1 {
			break
		}
		widths[widest]--
	}
	return widths
}
