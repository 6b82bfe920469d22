package jobs

import (
	"bytes"
	"io"
	"os"
)

// Backward reads the lines of a file from its end.
type Backward struct {
	file  *os.File
	begin int64  // where what is held begins in the file
	held  []byte // what has been read and not been given away
}

// NewBackward returns a reader of a file as long as it is now.
func NewBackward(file *os.File) (*Backward, error) {
	size, err := file.Seek(0, io.SeekEnd)
	return &Backward{file: file, begin: size}, err
}

// End returns where the lines end that have not been given away.
func (b *Backward) End() int64 { return b.begin + int64(len(b.held)) }

// Line takes the last line off what is left, without its newline, and reports whether it has one. The error is io.EOF
// when nothing is left.
func (b *Backward) Line() (text []byte, whole bool, err error) {
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
			return nil, false, err
		}
	}
}

// blockSize is how much of a file is read at once.
const blockSize = 256 << 10

// fill reads the block before what is held.
func (b *Backward) fill() error {
	n := min(b.begin, blockSize)
	block := make([]byte, n, n+int64(len(b.held)))
	if _, err := b.file.ReadAt(block, b.begin-n); err != nil {
		return err
	}
	b.held = append(block, b.held...)
	b.begin -= n
	return nil
}
