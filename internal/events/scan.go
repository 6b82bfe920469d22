package events

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
)

// line is one complete line of a log, without its newline, and where it stands. The text is good until the next line.
type line struct {
	text   []byte
	path   string
	number int
	last   func() (bool, error) // whether nothing follows it
}

func (l line) place() string { return fmt.Sprintf("%s:%d", l.path, l.number) }

// scan yields the lines of the log in dir. An incomplete last line is ErrTorn.
func scan(dir string) iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		files, err := logFiles(dir)
		if err != nil {
			yield(line{}, fmt.Errorf("read log: %w", err))
			return
		}
		for i, path := range files {
			if !scanFile(path, files[i+1:], yield) {
				return
			}
		}
	}
}

// scanFile yields the lines of one file; later are the files behind it. It returns false when that is the end.
func scanFile(path string, later []string, yield func(line, error) bool) bool {
	f, err := os.Open(path)
	if err != nil {
		return yield(line{}, fmt.Errorf("read log: %w", err))
	}
	defer func() { _ = f.Close() }() // only read from
	s := lineReader{in: bufio.NewReaderSize(f, 64<<10)}
	last := func() (bool, error) { return atEnd(s.in, later) }
	for number := 1; ; number++ {
		text, err := s.next()
		l := line{text: text, path: path, number: number, last: last}
		switch {
		case errors.Is(err, io.EOF) && len(text) == 0:
			return true
		case errors.Is(err, io.EOF):
			yield(line{}, l.torn())
			return false
		case err != nil:
			yield(line{}, fmt.Errorf("%s: %w", l.place(), err))
			return false
		case !yield(l, nil):
			return false
		}
	}
}

// torn is the error for a line without an end: harmless only at the end of the log.
func (l line) torn() error {
	last, err := l.last()
	if err == nil && last {
		return ErrTorn
	}
	return errors.Join(err, fmt.Errorf("%s: damaged line: it has no end", l.place()))
}

// atEnd tells whether in is at its end and the later files are empty.
func atEnd(in *bufio.Reader, later []string) (bool, error) {
	if _, err := in.Peek(1); !errors.Is(err, io.EOF) {
		return false, err
	}
	for _, path := range later {
		info, err := os.Stat(path)
		if err != nil {
			return false, err
		}
		if info.Size() > 0 {
			return false, nil
		}
	}
	return true, nil
}

// lineReader cuts lines of any length.
type lineReader struct {
	in   *bufio.Reader
	long []byte // room for a line that does not fit into the buffer of in
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
