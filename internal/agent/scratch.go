package agent

import (
	"cmp"
	"errors"
	"os"
)

// scratch are the private files of one try of a step, or of a whole attempt.
type scratch struct {
	run   *run
	files []string
	err   error // the first file that could not be written
}

// add writes a private file and returns its path.
func (s *scratch) add(pattern, content string) (string, error) {
	path, err := s.run.privateFile(pattern, content)
	if err != nil {
		s.err = cmp.Or(s.err, err)
		return "", err
	}
	s.files = append(s.files, path)
	return path, nil
}

// remove removes the files. Without any it does nothing.
func (s *scratch) remove() {
	if s == nil {
		return
	}
	for _, f := range s.files {
		_ = os.Remove(f)
	}
	s.files = nil
}

var errNoScratch = errors.New("a file has no place here")

// File implements template.Filer.
func (s *scope) File(content string) (string, error) {
	if s.scratch == nil {
		return "", errNoScratch
	}
	return s.scratch.add("value-*", content)
}
