package items

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

func (f *feed) csv(p path, take func([]byte) error) error { return f.rows(',', p, take) }

func (f *feed) tsv(p path, take func([]byte) error) error { return f.rows('\t', p, take) }

// rows takes each row after the first as an object of texts, whose names are those in the first.
func (f *feed) rows(comma rune, p path, take func([]byte) error) error {
	take = p.on(take)
	in := csv.NewReader(bufio.NewReaderSize(f, 64<<10))
	in.Comma, in.ReuseRecord = comma, true
	head, err := in.Read()
	if err == io.EOF {
		return f.failure()
	}
	if err != nil {
		return rowFault(err)
	}
	names, err := header(head, in)
	if err != nil {
		return err
	}
	for {
		fields, err := in.Read()
		if err == io.EOF {
			return f.failure()
		}
		if err == nil {
			err = f.row(names, fields, in)
		}
		if err == nil {
			err = take(f.out)
		}
		if err != nil {
			return rowFault(err)
		}
	}
}

// header returns the names in quotes, each with what stands before it in an object.
func header(fields []string, in *csv.Reader) ([][]byte, error) {
	names := make([][]byte, len(fields))
	seen := map[string]bool{}
	for i, name := range fields {
		if seen[name] {
			return nil, fieldFault(in, i, fmt.Errorf("two columns have the name %q", name))
		}
		seen[name] = true
		before := byte(',')
		if i == 0 {
			before = '{'
		}
		quoted, err := jsontext.AppendQuote([]byte{before}, name)
		if err != nil {
			return nil, fieldFault(in, i, errUTF8)
		}
		names[i] = append(quoted, ':')
	}
	return names, nil
}

// row makes an object of a row in f.out.
func (f *feed) row(names [][]byte, fields []string, in *csv.Reader) error {
	f.out = f.out[:0]
	for i, text := range fields {
		var err error
		if f.out, err = jsontext.AppendQuote(append(f.out, names[i]...), text); err != nil {
			return fieldFault(in, i, errUTF8)
		}
	}
	f.out = append(f.out, '}')
	return nil
}

// rowError is what is wrong with a row, and where.
type rowError struct {
	line, col int // col is in bytes, from 1
	err       error
}

func (e *rowError) Error() string {
	return fmt.Sprintf("line %d, column %d: %v", e.line, e.col, e.err)
}

func fieldFault(in *csv.Reader, field int, err error) error {
	line, col := in.FieldPos(field)
	return &rowError{line: line, col: col, err: err}
}

// rowFault words an error of the reader of rows.
func rowFault(err error) error {
	var bad *csv.ParseError
	if !errors.As(err, &bad) {
		return err
	}
	switch bad.Err {
	case csv.ErrFieldCount:
		err = errors.New("the row has more or fewer fields than the header")
	case csv.ErrBareQuote:
		err = errors.New(`a quote inside a field: put the field in quotes and double the quotes in it`)
	case csv.ErrQuote:
		err = errors.New("a quoted field does not end, or something follows its last quote")
	default:
		err = bad.Err
	}
	return &rowError{line: bad.Line, col: max(1, bad.Column), err: err}
}
