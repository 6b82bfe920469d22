package agent

import (
	"cmp"
	"errors"
	"os"

	"prodigy/internal/process"
)

// scratch are the private files of one try of a step, or of a whole attempt.
type scratch struct {
	run    *run
	files  []string
	memory []*os.File // those that hold secrets, where the system can keep them off the disk
	err    error      // the first file that could not be written
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

// addValues is add for values. What holds a secret is kept in memory, so that nothing of it is left when prodigy is killed. Programs that
// want the real path of a file do not find that one, which is why it is not done for all.
func (s *scratch) addValues(pattern, content string) (string, error) {
	if !s.run.x.Mask.Holds(content) {
		return s.add(pattern, content)
	}
	var (
		file *os.File
		path string
	)
	err := s.run.x.inRoom(s.run.stop, func() (err error) {
		file, path, err = process.MemoryFile(content)
		return err
	})
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return s.add(pattern, content)
	case err != nil:
		s.err = cmp.Or(s.err, err)
		return "", err
	}
	s.memory = append(s.memory, file)
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
	for _, f := range s.memory {
		_ = f.Close()
	}
	s.files, s.memory = nil, nil
}

var errNoScratch = errors.New("a file has no place here")

// File implements template.Filer.
func (s *scope) File(content string) (string, error) {
	if s.scratch == nil {
		return "", errNoScratch
	}
	return s.scratch.addValues("value-*", content)
}
