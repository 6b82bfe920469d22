package process

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// inputFile returns a file that holds what a command reads from its standard input, and what closes it. A file needs no
// writer beside the command, which would block on a command that reads slowly and fail on one that does not read at
// all. Where the system allows that, it has no name, so that nothing of it remains whatever happens.
func inputFile(text string) (file *os.File, end func(), err error) {
	end = func() { _ = file.Close() }
	if file, _, err = MemoryFile(text); errors.Is(err, errors.ErrUnsupported) {
		if file, err = os.CreateTemp("", "prodigy-input-*"); err == nil {
			if os.Remove(file.Name()) != nil {
				end = func() { _ = errors.Join(file.Close(), os.Remove(file.Name())) }
			}
			_, err = file.WriteString(text)
		}
	}
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		if file != nil {
			end()
		}
		return nil, nil, fmt.Errorf("create a file for standard input: %w", err)
	}
	return file, end, nil
}
