package events

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"prodigy/internal/check"
	"prodigy/internal/jobs"
)

// line is one complete line of a log, without its newline. The text is good until the next line.
type line struct {
	seq  int64
	text []byte
	from *lineReader // whose last line it is
}

// scan yields the lines of the log in dir, whose checksums are right. An incomplete last line is ErrTorn.
func scan(dir string) iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		files, err := filesToRead(dir)
		if err != nil {
			yield(line{}, err)
			return
		}
		inTurn(files, behind{}, 0, new(seals), yield)
	}
}

// filesToRead returns the files of the log in dir, which is an error if there are none.
func filesToRead(dir string) ([]string, error) {
	files, err := logFiles(dir)
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("not found in %s: %w", dir, os.ErrNotExist)
	}
	if err != nil {
		return nil, cannotRead(err)
	}
	return files, nil
}

func cannotRead(err error) error { return fmt.Errorf("read the event log: %w", err) }

// behind is a place in a file that is read from there: behind so many lines and bytes.
type behind struct {
	lines  int
	offset int64
}

// inTurn yields the lines of the last files of a log, from a place in the first of them, which go on behind record
// last. It returns early when no more are wanted.
func inTurn(files []string, at behind, last int64, sums *seals, yield func(line, error) bool) {
	for i, path := range files {
		for l, err := range scanFile(path, at, i == len(files)-1, sums) {
			if err == nil && l.seq != last+1 {
				err = l.outOfTurn(last)
			}
			if !yield(l, err) || err != nil {
				return
			}
			last = l.seq
		}
		at = behind{}
	}
}

// scanFile yields the lines of one file. Only the newest may end in a line that is none.
func scanFile(path string, at behind, newest bool, sums *seals) iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		f, err := jobs.OpenPacked(path)
		if err == nil {
			defer check.Quietly(f.Close)
		}
		if err == nil && at.offset > 0 {
			err = jobs.Skip(f, at.offset)
		}
		if err != nil {
			yield(line{}, cannotRead(err))
			return
		}
		lines := newLineReader(f, path, newest, sums)
		lines.number = at.lines
		lines.lines(yield)
	}
}

// lines yields the lines that are left.
func (s *lineReader) lines(yield func(line, error) bool) {
	for {
		l, err := s.line()
		if errors.Is(err, io.EOF) || !yield(l, err) || err != nil {
			return
		}
	}
}

// line returns the next line, io.EOF when there is none, and ErrTorn when it has no end and the log ends there.
func (s *lineReader) line() (line, error) {
	text, err := s.next()
	if err != nil {
		return line{text: text}, s.endedBy(err, text)
	}
	s.number++
	l := line{text: text, from: s}
	err = s.sums.check(text)
	if err == nil {
		err = l.readSeq()
	}
	if err != nil {
		return line{}, l.damaged(err)
	}
	return l, nil
}

// endedBy is the error for what is left of a file when reading it gave err.
func (s *lineReader) endedBy(err error, left []byte) error {
	switch {
	case errors.Is(err, io.EOF) && len(left) == 0:
		return io.EOF
	case errors.Is(err, io.EOF) && s.newest:
		return ErrTorn // its rest may have been written by now: that is no damage
	}
	s.number++
	if errors.Is(err, io.EOF) {
		return line{from: s}.damaged(errors.New("incomplete line"))
	}
	return new(s.lineError(err))
}

// outOfTurn is the error for a line that does not come directly after record last.
func (l line) outOfTurn(last int64) error {
	return &DamagedError{l.from.lineError(fmt.Errorf("found record %d, expected record %d", l.seq, last+1))}
}

// damaged is the error for a whole line that cannot be believed.
func (l line) damaged(err error) error {
	return &DamagedError{l.from.lineError(fmt.Errorf("damaged line: %w", err))}
}

// DamagedError says that a log cannot be read any further, for a reason other than a run that was killed
// while it wrote.
type DamagedError struct{ jobs.LineError }

// readSeq finds out which record the line holds, and looks at little more.
func (l *line) readSeq() error {
	c := cursor{rest: l.text, ok: true}
	c.skip(`{"seq":`)
	l.seq = c.number()
	c.skip(",")
	if c.ok && l.seq > 0 && l.text[len(l.text)-1] == '}' {
		return nil
	}
	h, err := decodeHead(l.text)
	l.seq = h.Seq
	return err
}

// lineReader reads the lines of a file, of any length.
type lineReader struct {
	path   string
	newest bool // the file is that of its log
	number int  // of the last line
	sums   *seals

	in   *bufio.Reader
	long []byte // a line that is larger than the buffer of in
}

// readSize is how much of a file is read at once.
const readSize = 64 << 10

// newLineReader returns a reader of the lines of one file, whose path is for people. It checks their checksums
// with sums, which goes from file to file.
func newLineReader(in io.Reader, path string, newest bool, sums *seals) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, readSize), path: path, newest: newest, sums: sums}
}

// lineError returns err as an error about the line that was read last, or about the file before the first line.
func (s *lineReader) lineError(err error) jobs.LineError {
	return jobs.LineError{Path: s.path, Line: s.number, Err: err}
}

// next returns a line without its newline. At the end of the input it returns what there is of an incomplete line and
// io.EOF. It can be called again then: more may have come.
func (s *lineReader) next() ([]byte, error) {
	text, err := jobs.ReadLine(s.in, &s.long)
	return bytes.TrimSuffix(text, []byte("\n")), err
}
