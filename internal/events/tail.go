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

// blockSize is how much of a file is read at once where it is read from its end.
const blockSize = 256 << 10

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
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, cannotRead(err)
	}
	b := backward{lines: lineReader{path: path}, file: file, begin: size, last: last}
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
	lines lineReader // tells where the lines come from
	file  io.ReaderAt
	begin int64  // where what is held begins in the file
	held  []byte // what has been read and not been given away
	last  bool   // the file is the newest of its log
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
	for first := b.held == nil && b.begin > 0; ; first = false {
		text, whole, err := b.cut()
		if err != nil {
			return line{}, err
		}
		l := line{text: text, from: &b.lines}
		if whole {
			err = checkBefore(text, b.later)
		} else if first && b.last {
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

// cut takes the last line off what is left of the file, and reports whether it ends in a newline.
func (b *backward) cut() (text []byte, whole bool, err error) {
	for {
		body := bytes.TrimSuffix(b.held, []byte("\n"))
		at := bytes.LastIndexByte(body, '\n') + 1
		if at > 0 || b.begin == 0 && len(b.held) > 0 {
			whole = len(body) < len(b.held)
			b.held = b.held[:at]
			return body[at:], whole, nil
		}
		if b.begin == 0 {
			return nil, false, io.EOF
		}
		if err := b.fill(); err != nil {
			return nil, false, cannotRead(err)
		}
	}
}

// fill reads the block before what is held.
func (b *backward) fill() error {
	n := min(b.begin, blockSize)
	block := make([]byte, n, n+int64(len(b.held)))
	if _, err := b.file.ReadAt(block, b.begin-n); err != nil {
		return err
	}
	b.held = append(block, b.held...)
	b.begin -= n
	return nil
}
