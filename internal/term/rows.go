package term

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/rawjson"
)

// Format is how rows are printed.
type Format string

// The formats of rows.
const (
	Human Format = "human" // a table for people
	JSON  Format = "json"  // one array
	JSONL Format = "jsonl" // a line for each row
	CSV   Format = "csv"
	TSV   Format = "tsv"
)

// Column is a column of rows of type T.
type Column[T any] struct {
	Head  string         // heading for people; without one only programs get the column
	Key   string         // name for programs; without one only people get the column
	Cell  func(T) string // what people see, by default what programs do, or a dash for nothing; it is cut to Limit
	Value func(T) any    // what programs see in csv and tsv; by default the field that has Key as its name in JSON
	Paint func(T) Colour
	Limit int // characters; 0 does not limit them
	Drop  int // on a terminal that is too narrow, columns are left out in this order, but for those with 0
}

// Fields returns columns for programs with these fields.
func Fields[T any](keys ...string) []Column[T] {
	columns := make([]Column[T], len(keys))
	for i, key := range keys {
		columns[i].Key = key
	}
	return columns
}

// Rows prints values as a table for people, or in one of the formats for programs. It has the only code that does.
type Rows[T any] struct {
	Format  Format
	Look    Look // of the terminal
	Columns []Column[T]
}

// Line is a row that is JSON already, on one line: an event, a result. It may end with a newline.
type Line []byte

// Each yields the values of a list.
func Each[T any](list []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range list {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// Those yields the values that are to be kept, and all errors.
func Those[T any](seq iter.Seq2[T, error], keep func(T) bool) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for v, err := range seq {
			if (err != nil || keep(v)) && !yield(v, err) {
				return
			}
		}
	}
}

// Print prints all values, and returns how many there were. At an error it ends. Without values people get nothing, not
// even headings.
func (t Rows[T]) Print(w io.Writer, all iter.Seq2[T, error]) (n int, err error) {
	one, end := t.writer(w)
	for v, err := range all {
		if err == nil {
			err = one(v)
		}
		if err != nil {
			return n, err
		}
		n++
	}
	if n == 0 && t.Format == Human {
		return 0, nil
	}
	return n, end()
}

// writer returns what prints one value, and what ends the output.
func (t Rows[T]) writer(w io.Writer) (one func(T) error, end func() error) {
	switch t.Format {
	case JSON:
		return jsonArray[T](w)
	case JSONL:
		return func(v T) error {
			text, err := encodeRow(v, "")
			if err == nil {
				_, err = fmt.Fprintf(w, "%s\n", text)
			}
			return err
		}, func() error { return nil }
	case CSV, TSV:
		return t.separated(w)
	}
	p := &table{w: w, look: t.Look}
	shown, head := t.named(func(c Column[T]) string { return c.Head })
	for i, c := range shown {
		if c.Drop > 0 {
			p.drop = append(p.drop, i)
		}
	}
	slices.SortStableFunc(p.drop, func(a, b int) int { return shown[a].Drop - shown[b].Drop })
	p.rows = [][]string{head}
	return func(v T) error {
		cells := make([]string, len(shown))
		var fields map[string]json.RawMessage // of v in JSON, when a column needs one
		for i, c := range shown {
			var err error
			if cells[i], err = c.cell(t.Look, v, &fields); err != nil {
				return err
			}
		}
		p.rows = append(p.rows, cells)
		return nil
	}, p.flush
}

// named returns the columns that have a name, and their names.
func (t Rows[T]) named(name func(Column[T]) string) (columns []Column[T], names []string) {
	columns = slices.DeleteFunc(slices.Clone(t.Columns), func(c Column[T]) bool { return name(c) == "" })
	return columns, check.Each(columns, name)
}

// cell returns what people see of a value: a time in their zone, yes or no, the rest as fmt prints it.
func (c Column[T]) cell(k Look, v T, fields *map[string]json.RawMessage) (text string, err error) {
	switch {
	case c.Cell != nil:
		text = c.Cell(v)
	case c.Value != nil:
		switch v := c.Value(v).(type) {
		case bool:
			text = YesNo(v)
		case time.Time:
			text = check.Moment(v)
		default:
			text = fmt.Sprint(v)
		}
	default:
		text, err = fieldText(v, c.Key, fields)
	}
	if c.Cell == nil && text == "" {
		text = "-"
	}
	text = Untabbed(text)
	if c.Limit > 0 {
		text = Ellipsis(text, c.Limit)
	}
	if c.Paint != nil {
		text = k.Paint(c.Paint(v), text)
	}
	return text, err
}

// jsonArray streams one array: rows that have a line of their own, one on each, others indented.
func jsonArray[T any](w io.Writer) (one func(T) error, end func() error) {
	before, after := "[\n", "[]\n"
	return func(v T) error {
			indent := "  "
			if _, ok := any(v).(Line); ok {
				indent = ""
			}
			text, err := encodeRow(v, indent)
			if err == nil {
				_, err = fmt.Fprintf(w, "%s%s%s", before, indent, text)
			}
			before, after = ",\n", "\n]\n"
			return err
		}, func() error {
			_, err := io.WriteString(w, after)
			return err
		}
}

// encodeRow returns a row as JSON: the line that it has, or else its fields.
func encodeRow(v any, indent string) ([]byte, error) {
	if line, ok := v.(Line); ok {
		return bytes.TrimRight(line, "\n"), nil
	}
	return rawjson.Indented(v, indent, indent)
}

// PrintJSON prints v as one indented document.
func PrintJSON(w io.Writer, v any) error {
	text, err := rawjson.Indented(v, "", "  ")
	if err == nil {
		_, err = fmt.Fprintf(w, "%s\n", text)
	}
	return err
}

// separated prints comma- or tab-separated values with a header. Each row is written at once: somebody may be
// following.
func (t Rows[T]) separated(w io.Writer) (one func(T) error, end func() error) {
	out := csv.NewWriter(w)
	if t.Format == TSV {
		out.Comma = '\t'
	}
	columns, row := t.named(func(c Column[T]) string { return c.Key })
	_ = out.Write(row) // an error is there again at the next write
	flush := func() error {
		out.Flush()
		return out.Error()
	}
	return func(v T) error {
		var fields map[string]json.RawMessage // of v in JSON, when a column needs one
		for i, c := range columns {
			var err error
			if c.Value != nil {
				row[i], err = valueText(c.Value(v))
			} else {
				row[i], err = fieldText(v, c.Key, &fields)
			}
			if err != nil {
				return err
			}
		}
		_ = out.Write(row) // flush returns the error
		return flush()
	}, flush
}

// fieldText returns a field of v by its name in JSON. A text is as it is, and what is absent is empty.
func fieldText(v any, key string, fields *map[string]json.RawMessage) (string, error) {
	if *fields == nil {
		text, err := encodeRow(v, "")
		if err == nil {
			err = json.Unmarshal(text, fields)
		}
		if err != nil {
			return "", err
		}
	}
	return rawjson.Text((*fields)[key]), nil
}

// valueText returns a value for programs: a text as it is, a time in RFC 3339, what is absent as nothing, the rest as
// JSON.
func valueText(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case time.Time:
		return v.Format(time.RFC3339Nano), nil
	}
	text, err := rawjson.Encode(v)
	return rawjson.Text(text), err
}

// Aligned prints lines of cells without headings, each column as wide as its widest cell.
func Aligned(w io.Writer, lines [][]string) error {
	return (&table{w: w, rows: lines}).flush()
}

// table prints rows in columns, each as wide as its widest cell. On a terminal no row is wider than that: columns are
// left out and cells cut, but never those of the first column, which are ids to copy.
type table struct {
	w    io.Writer
	look Look
	drop []int      // columns that may be left out, the first of them first
	rows [][]string // cells of visible text of one line
}

// flush prints the rows.
func (t *table) flush() error {
	if len(t.rows) == 0 {
		return nil
	}
	columns, widths := t.layout()
	var b strings.Builder
	for _, row := range t.rows {
		var line strings.Builder
		for i, c := range columns {
			text := Cut(widths[i], row[c])
			line.WriteString(text + strings.Repeat(" ", widths[i]-Width(text)+columnGap))
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

// layout returns the columns that are printed, and how wide. Where they do not fit into the terminal, columns are left
// out that may be, and then the widest ones are made narrower.
func (t *table) layout() (columns, widths []int) {
	for i := range t.rows[0] {
		columns = append(columns, i)
	}
	left := 0
	for _, drop := range append(t.drop, -1) {
		widths, left = make([]int, len(columns)), t.look.Width-columnGap*(len(columns)-1)
		spare := 0 // what cells can be made narrower by
		for i, c := range columns {
			for _, row := range t.rows {
				widths[i] = max(widths[i], Width(row[c]))
			}
			left -= widths[i]
			if i > 0 {
				spare += max(widths[i]-columnFloor, 0)
			}
		}
		if t.look.Width == 0 {
			return columns, widths
		}
		if left+spare >= 0 {
			break
		}
		columns = slices.DeleteFunc(columns, func(c int) bool { return c == drop })
	}
	for ; left < 0; left++ {
		widest := 0
		for i := 1; i < len(widths); i++ {
			if widest == 0 || widths[i] >= widths[widest] {
				widest = i
			}
		}
		if widest == 0 || widths[widest] <= 1 {
			break
		}
		widths[widest]--
	}
	return columns, widths
}
