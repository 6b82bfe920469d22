package term

import (
	"errors"
	"io"
	"os"
)

// span is a part of a spool.
type span struct{ offset, length int64 }

// spool keeps bytes: few of them in memory, more in a file that has no name, so that nothing is left behind.
type spool struct {
	memory []byte
	file   *os.File // nil: all is in memory
	size   int64
}

// mostInMemory is how many bytes of a spool stay in memory.
const mostInMemory = 64 << 10

func (s *spool) Write(p []byte) (int, error) {
	if s.file == nil && int(s.size)+len(p) > mostInMemory {
		file, err := os.CreateTemp("", "prodigy-output-*") // mode 0600
		if err != nil {
			return 0, err
		}
		s.file = file
		_ = os.Remove(file.Name()) // where a file in use cannot be removed, close does it
		if _, err := file.WriteAt(s.memory, 0); err != nil {
			return 0, err
		}
		s.memory = nil
	}
	if s.file == nil {
		s.memory = append(s.memory, p...)
	} else if n, err := s.file.WriteAt(p, s.size); err != nil {
		return n, err
	}
	s.size += int64(len(p))
	return len(p), nil
}

// truncate drops what is after size.
func (s *spool) truncate(size int64) {
	if size >= s.size {
		return
	}
	if s.size = size; s.file != nil {
		_ = s.file.Truncate(size) // what is written overwrites it anyway
	} else {
		s.memory = s.memory[:size]
	}
}

// read calls use with a part of what is kept, in pieces.
func (s *spool) read(part span, use func([]byte) error) error {
	if s.file == nil {
		if part.length == 0 {
			return nil
		}
		return use(s.memory[part.offset : part.offset+part.length])
	}
	buf := make([]byte, min(part.length, mostInMemory))
	for part.length > 0 {
		n, err := s.file.ReadAt(buf[:min(part.length, mostInMemory)], part.offset)
		if n == 0 {
			return errors.Join(err, io.ErrUnexpectedEOF)
		}
		if err := use(buf[:n]); err != nil {
			return err
		}
		part.offset, part.length = part.offset+int64(n), part.length-int64(n)
	}
	return nil
}

// drain calls use with all that is kept, and drops it.
func (s *spool) drain(use func([]byte) error) error {
	err := s.read(span{0, s.size}, use)
	s.truncate(0)
	return err
}

func (s *spool) close() {
	if s.file != nil {
		name := s.file.Name()
		_ = s.file.Close()
		_ = os.Remove(name)
	}
	*s = spool{}
}
