package jobs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// LineError says what is wrong with a line of a file, or with the file.
type LineError struct {
	Path string
	Line int // from 1; 0: it is about the file
	Err  error
}

// Error begins with the place.
func (e *LineError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("%s:%d: %v", e.Path, e.Line, e.Err)
}

// Unwrap returns what is wrong.
func (e *LineError) Unwrap() error { return e.Err }

// Replay calls use with the lines of a file, without their ends, and with what is wrong with their checksums. Lines of
// an older version have none, and come first. An error of use ends it, with a *LineError. But if nothing follows that
// line, the write of it was cut short by a crash or a power failure: then the error is bad. Left are the bytes of an
// incomplete line at the end.
func Replay(in io.Reader, path string, use func(line []byte, wrong error) error) (left int, bad, err error) {
	r := bufio.NewReaderSize(in, 64<<10)
	var sums SealedLines
	var long []byte
	for number := 1; ; number++ {
		line, err := ReadLine(r, &long)
		if errors.Is(err, io.EOF) {
			return len(line), nil, nil
		}
		if err != nil {
			return 0, nil, err
		}
		line = line[:len(line)-1]
		if err := use(line, sums.Check(line)); err != nil {
			if _, end := r.Peek(1); errors.Is(end, io.EOF) {
				return 0, err, nil
			}
			return 0, nil, &LineError{path, number, err}
		}
	}
}

// ReadLine returns the next line with its end. The line is valid until the next read. One that is larger than the buffer
// of r is collected in long. At the end of r it returns what there is of a line, and io.EOF.
func ReadLine(r *bufio.Reader, long *[]byte) ([]byte, error) {
	*long = (*long)[:0]
	for {
		text, err := r.ReadSlice('\n')
		full := errors.Is(err, bufio.ErrBufferFull)
		if full || len(*long) > 0 {
			*long = append(*long, text...)
			text = *long
		}
		if !full {
			return text, err
		}
	}
}

// SkipLine reads up to the end of a line, however long it is, without keeping it. It returns how many bytes that are.
func SkipLine(r *bufio.Reader) (int64, error) {
	var n int64
	for {
		text, err := r.ReadSlice('\n')
		n += int64(len(text))
		if !errors.Is(err, bufio.ErrBufferFull) {
			return n, err
		}
	}
}
