package events

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"

	"prodigy/internal/check"
	"prodigy/internal/jobs"
)

// newest returns the last lines that match, oldest first. It reads from the end of the log and no further
// than it has to, so that damage before that goes unnoticed. A torn last line is ErrTorn beside the lines
// before it.
func (f *filter) newest(dir string, limit int) (lines [][]byte, err error) {
	files, err := filesToRead(dir)
	if err != nil {
		return nil, err
	}
	var torn error
	for i, path := range slices.Backward(files) {
		if len(lines) == limit {
			break
		}
		found, err := f.newestOf(path, i == len(files)-1, limit-len(lines))
		if errors.Is(err, ErrTorn) {
			torn, err = err, nil
		}
		if err != nil {
			return nil, err
		}
		lines = append(lines, found...)
	}
	slices.Reverse(lines)
	return lines, torn
}

// newestOf returns the last lines of a file that match, newest first.
func (f *filter) newestOf(path string, last bool, limit int) ([][]byte, error) {
	if jobs.IsPacked(path) {
		return f.lastOf(path, limit)
	}
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return f.lastOf(path, limit) // it has been compressed since
	}
	if err != nil {
		return nil, cannotRead(err)
	}
	defer check.Quietly(file.Close)
	text, err := jobs.NewBackward(file)
	if err != nil {
		return nil, cannotRead(err)
	}
	b := backward{Backward: text, lines: lineReader{path: path}, last: last}
	return b.collect(f, limit)
}

// lastOf is newestOf for a file that can only be read from its beginning.
func (f *filter) lastOf(path string, limit int) ([][]byte, error) {
	kept := ring{size: limit}
	for l, err := range scanFile(path, behind{}, false, new(seals)) { // what follows in the next file has been checked
		if err != nil {
			return nil, err
		}
		match, err := f.match(l)
		if err != nil {
			return nil, err
		}
		if match {
			kept.add(l.text)
		}
	}
	var lines [][]byte
	kept.drain(func(text []byte, _ error) bool {
		lines = append(lines, text)
		return true
	})
	slices.Reverse(lines)
	return lines, nil
}

// backward reads the lines of a file from its end.
type backward struct {
	*jobs.Backward
	lines lineReader // tells where the lines come from
	last  bool       // the file is the newest of its log
	torn  bool
	later []byte // the line that was returned last
}

// collect returns the last lines that match, the newest first.
func (b *backward) collect(f *filter, limit int) (lines [][]byte, err error) {
	for len(lines) < limit {
		l, err := b.previous()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		match, err := f.match(l)
		if err != nil {
			return nil, err
		}
		if match {
			lines = append(lines, bytes.Clone(l.text))
		}
	}
	if b.torn {
		return lines, ErrTorn
	}
	return lines, nil
}

// previous returns the line before those that it has returned, and io.EOF when there is none. An incomplete
// line at the end of the newest file is passed over.
func (b *backward) previous() (line, error) {
	for {
		text, whole, err := b.Line()
		if err != nil {
			return line{}, cannotRead(err)
		}
		l := line{text: text, from: &b.lines}
		if whole {
			err = checkBefore(text, b.later)
		} else if b.last && b.later == nil && !b.torn {
			b.torn = true
			continue
		} else {
			err = errors.New("incomplete line")
		}
		if err == nil {
			err = l.readSeq()
		}
		if err != nil {
			return line{}, l.damaged(err)
		}
		b.later = text
		return l, nil
	}
}
