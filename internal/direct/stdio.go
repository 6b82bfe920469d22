package direct

import (
	"io"
	"os"
	"path/filepath"

	"prodigy/internal/process"
	"prodigy/internal/template"
)

// stdio is where the descriptors 0, 1 and 2 of a program lead.
type stdio struct {
	fds   [3]io.Writer // fds[0] is nil or a file
	files []*os.File   // those that were opened
}

// openStdio opens the files that redirections name, as the shell would that c runs. It is not ok when they are more than files to read
// from, or when one cannot be opened: then only the shell knows what happens.
func openStdio(redirects []template.Redirect, c process.Command) (s stdio, ok bool) {
	s.fds = [3]io.Writer{nil, c.Stdout, c.Stderr}
	for _, r := range redirects {
		if r.File == "" {
			s.fds[r.FD] = s.fds[r.Copy]
			continue
		}
		path := r.File
		if !filepath.IsAbs(path) {
			path = c.Dir + "/" + path // not cleaned: it may lead through links
		}
		if !opensWithoutTrace(path) {
			s.close()
			return stdio{}, false
		}
		file, err := process.OpenSource(path, r.Flag)
		if err != nil {
			s.close()
			return stdio{}, false
		}
		s.files = append(s.files, file)
		s.fds[r.FD] = file
	}
	return s, true
}

// opensForWriting reports whether a redirection opens a file for writing, which is left to the shell: see process.OpenSource.
func opensForWriting(r template.Redirect) bool {
	return r.File != "" && r.File != os.DevNull && r.Flag != os.O_RDONLY
}

// opensWithoutTrace reports whether nobody notices that a file is opened. Opening a pipe would let its writer go on.
func opensWithoutTrace(path string) bool {
	info, err := os.Stat(path)
	return err == nil && (info.Mode().IsRegular() || path == os.DevNull)
}

// close closes the files. A command that runs has its own descriptors of them.
func (s *stdio) close() {
	for _, file := range s.files {
		_ = file.Close()
	}
	s.files = nil
}
