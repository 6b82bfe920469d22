package events

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
)

// line is one complete line of a log, without its newline, and where it stands. The text is good until the next line.
type line struct {
	seq    int64
	text   []byte
	path   string
	number int
	newest bool // the file
	reader *lineReader
}

func (l line) place() string { return fmt.Sprintf("%s:%d", l.path, l.number) }

// scan yields the lines of the log in dir. An incomplete or unreadable last line is ErrTorn.
func scan(dir string) iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		files, err := logFiles(dir)
		if err != nil {
			yield(line{}, fmt.Errorf("read the event log: %w", err))
			return
		}
		inTurn(files, 0, yield)
	}
}

// inTurn yields the lines of the last files of a log, which go on behind record last. It returns early when no more are wanted.
func inTurn(files []string, last int64, yield func(line, error) bool) {
	for i, path := range files {
		for l, err := range scanFile(path, i == len(files)-1) {
			if err == nil {
				err = l.follows(last)
			}
			if !yield(l, err) || err != nil {
				return
			}
			last = l.seq
		}
	}
}

// scanFile yields the lines of one file. Only the newest may end in a line that is none.
func scanFile(path string, newest bool) iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		f, err := openToRead(path)
		if err != nil {
			yield(line{}, fmt.Errorf("read the event log: %w", err))
			return
		}
		defer func() { _ = f.Close() }() // only read from
		newLineReader(f).lines(path, 1, newest, yield)
	}
}

// lines yields the lines that are left, of which the next is this number of the file. It returns false when the reading is over.
func (s *lineReader) lines(path string, number int, newest bool, yield func(line, error) bool) bool {
	for ; ; number++ {
		l, err := s.line(path, number, newest)
		if errors.Is(err, io.EOF) {
			return true
		}
		if !yield(l, err) || err != nil {
			return false
		}
	}
}

// line returns the next line, io.EOF when there is none, and ErrTorn when it is no whole record and the log ends there.
func (s *lineReader) line(path string, number int, newest bool) (line, error) {
	text, err := s.next()
	l := line{text: text, path: path, number: number, newest: newest, reader: s}
	switch {
	case errors.Is(err, io.EOF) && len(text) == 0:
		return line{}, io.EOF
	case errors.Is(err, io.EOF) && newest:
		// Its rest may have been written by now: that is no damage.
		return line{}, ErrTorn
	case errors.Is(err, io.EOF):
		return line{}, l.damaged(errors.New("it has no end"))
	case err != nil:
		return line{}, fmt.Errorf("%s: %w", l.place(), err)
	}
	if l.seq, err = seqOf(l.text); err != nil {
		return line{}, l.damaged(err)
	}
	return l, nil
}

// follows checks that the line comes directly after record last.
func (l line) follows(last int64) error {
	if l.seq == last+1 {
		return nil
	}
	return &DamagedError{Place: l.place(), Err: fmt.Errorf("record %d where %d should be", l.seq, last+1)}
}

// damaged is the error for a line that cannot be read: harmless only at the end of the log.
func (l line) damaged(err error) error {
	if l.newest && l.reader.atEnd() {
		return ErrTorn
	}
	return &DamagedError{Place: l.place(), Err: fmt.Errorf("damaged line: %w", err)}
}

// DamagedError says that a log cannot be read any further, for a reason other than a run that was killed while it wrote.
type DamagedError struct {
	Place string // file:line
	Err   error
}

// Error begins with the place.
func (e *DamagedError) Error() string { return e.Place + ": " + e.Err.Error() }

// Unwrap returns why.
func (e *DamagedError) Unwrap() error { return e.Err }

// seqOf returns the number of the record that a line holds, and looks at little more.
func seqOf(text []byte) (int64, error) {
	c := cursor{rest: text, ok: true}
	c.skip(`{"seq":`)
	seq := c.number()
	c.skip(",")
	if c.ok && seq > 0 && text[len(text)-1] == '}' {
		return seq, nil
	}
	h, err := decodeHead(text)
	return h.Seq, err
}

// lineReader cuts lines of any length.
type lineReader struct {
	in   *bufio.Reader
	long []byte // room for a line that does not fit into the buffer of in
}

func newLineReader(in io.Reader) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, 64<<10)}
}

// next returns a line without its newline. At the end of the input it returns what there is of an incomplete line and
// io.EOF.
func (s *lineReader) next() ([]byte, error) {
	chunk, err := s.in.ReadSlice('\n')
	if err == nil {
		return bytes.TrimSuffix(chunk, []byte("\n")), nil
	}
	s.long = append(s.long[:0], chunk...)
	for errors.Is(err, bufio.ErrBufferFull) {
		chunk, err = s.in.ReadSlice('\n')
		s.long = append(s.long, chunk...)
	}
	return bytes.TrimSuffix(s.long, []byte("\n")), err
}

// atEnd tells whether nothing follows what was read.
func (s *lineReader) atEnd() bool {
	_, err := s.in.Peek(1)
	return errors.Is(err, io.EOF)
}
