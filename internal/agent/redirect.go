package agent

import (
	"io"
	"os"
	"path/filepath"

	"prodigy/internal/process"
	"prodigy/internal/template"
)

// places are where the descriptors 0, 1 and 2 of a program lead.
type places struct {
	at    [3]io.Writer // 0 is nil or a file
	files []*os.File
}

// redirected opens what the redirections of a program name, as the shell would that c runs. It is not ok when that is more than
// files to read from, or when one of them cannot be opened: then only the shell knows what comes of it.
func redirected(redirects []template.Redirect, c process.Command) (p places, ok bool) {
	p.at = [3]io.Writer{nil, c.Stdout, c.Stderr}
	for _, r := range redirects {
		if r.File == "" {
			p.at[r.FD] = p.at[r.Copy]
			continue
		}
		path := beneath(c.Dir, r.File)
		if !waitsForNobody(path) {
			p.close()
			return places{}, false
		}
		file, err := process.OpenSource(path, r.Flag)
		if err != nil {
			p.close()
			return places{}, false
		}
		p.files = append(p.files, file)
		p.at[r.FD] = file
	}
	return p, true
}

// writes tells whether a redirection opens a file for writing, which is left to the shell: see process.OpenSource.
func writes(r template.Redirect) bool {
	return r.File != "" && r.File != os.DevNull && r.Flag != os.O_RDONLY
}

// waitsForNobody tells whether a file may be opened without a trace: to open a pipe would let who writes to it go on.
func waitsForNobody(path string) bool {
	info, err := os.Stat(path)
	return err == nil && (info.Mode().IsRegular() || path == os.DevNull)
}

// beneath returns path as it is seen from dir. What leads through links is left as it is written.
func beneath(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return dir + "/" + path
}

// given returns c with these places.
func (p *places) given(c process.Command) process.Command {
	c.Stdout, c.Stderr = p.at[1], p.at[2]
	if file, ok := p.at[0].(*os.File); ok {
		c.Stdin = file
	}
	return c
}

// close closes the files, which a command that runs has for itself.
func (p *places) close() {
	for _, file := range p.files {
		_ = file.Close()
	}
	p.files = nil
}
