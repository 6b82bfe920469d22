package process

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// input is a file that holds what a command reads from its standard input. A file needs no writer beside the
// command, which would block on a command that reads slowly and fail on one that does not read at all.
type input struct {
	file  *os.File
	named bool // the file still has its name
}

// inputFile returns a file that holds text, to be read from its beginning. Where the system allows that, it has
// no name, so that nothing of it remains whatever happens.
func inputFile(text string) (in input, err error) {
	if in.file, _, err = MemoryFile(text); errors.Is(err, errors.ErrUnsupported) {
		in, err = temporaryInput(text)
	}
	if err != nil {
		return input{}, fmt.Errorf("make a file for the standard input: %w", err)
	}
	if _, err := in.file.Seek(0, io.SeekStart); err != nil {
		in.close()
		return input{}, fmt.Errorf("write the standard input: %w", err)
	}
	return in, nil
}

// temporaryInput makes a file that only the user can read, and takes its name away where the system allows that.
func temporaryInput(text string) (input, error) {
	file, err := os.CreateTemp("", "prodigy-input-*")
	if err != nil {
		return input{}, err
	}
	in := input{file: file, named: os.Remove(file.Name()) != nil}
	if _, err := file.WriteString(text); err != nil {
		in.close()
		return input{}, err
	}
	return in, nil
}

func (in input) close() {
	_ = in.file.Close()
	if in.named {
		_ = os.Remove(in.file.Name())
	}
}
