package items

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// rows emits each row after the first as an object of texts; the first row has the names. Data without any row has no
// items, which is no error.
func (f *peekReader) rows(comma rune, p path, emit func([]byte) error) error {
	emit = p.evaluator(emit)
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
			err = emit(f.out)
		}
		if err != nil {
			return rowFault(err)
		}
	}
}

// header returns the quoted names, each with the punctuation around it in an object: {"id": and ,"name":.
func header(fields []string, in *csv.Reader) ([][]byte, error) {
	names := make([][]byte, len(fields))
	seen := map[string]bool{}
	for i, name := range fields {
		if seen[name] {
			return nil, fieldFault(in, i, fmt.Errorf("duplicate column name %q", name))
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

// row writes a row to f.out as an object.
func (f *peekReader) row(names [][]byte, fields []string, in *csv.Reader) error {
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

// rowError is an error in a row, with its position.
type rowError struct {
	// line and col count from 1, col in bytes.
	line, col int

	err error
}

func (e *rowError) Error() string {
	return fmt.Sprintf("line %d, column %d: %v", e.line, e.col, e.err)
}

// fieldFault returns an error at a field of the row that was read last.
func fieldFault(in *csv.Reader, field int, err error) error {
	line, col := in.FieldPos(field)
	return &rowError{line: line, col: col, err: err}
}

// rowFault explains an error of the CSV reader.
func rowFault(err error) error {
	var bad *csv.ParseError
	if !errors.As(err, &bad) {
		return err
	}
	switch bad.Err {
	case csv.ErrFieldCount:
		err = errors.New("row has a different number of fields than the header")
	case csv.ErrBareQuote:
		err = errors.New(`unescaped quote in a field: quote the field and double the quotes in it`)
	case csv.ErrQuote:
		err = errors.New("a quoted field is not closed, or text follows its closing quote")
	default:
		err = bad.Err
	}
	return &rowError{line: bad.Line, col: max(1, bad.Column), err: err}
}
