package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"prodigy/internal/retry"
	"prodigy/internal/template"
)

// outputFile is the compiled output_file of a step.
type outputFile struct {
	path *template.Plain
	head *template.Plain // what stands before the first value that is data; nil: there is none
}

// outputFile compiles the output_file of s, which may be absent.
func (c *compiler) outputFile(s *step, p place) *outputFile {
	if s.OutputFile == nil {
		return nil
	}
	path := c.plain(s, *s.OutputFile, p)
	if path == nil {
		return nil
	}
	return &outputFile{path: path, head: path.Before(p.isData)}
}

// destination is where the stdout of a command goes beside the capture.
type destination struct {
	within string // a directory that the path must not leave; empty: it may lie anywhere
	path   string
}

var errLeaves = errors.New("a value leads out of the directory")

// bind returns the destination for a command that runs in dir. What the workflow itself wrote of the path may lead anywhere;
// data may only lead further down.
func (o *outputFile) bind(s *scope, dir string) (*destination, error) {
	if o == nil {
		return nil, nil
	}
	path, err := o.path.Bind(s)
	if err != nil {
		return nil, fmt.Errorf("output_file: %w", err)
	}
	if strings.TrimSpace(path) == "" || strings.IndexByte(path, 0) >= 0 {
		return nil, fmt.Errorf("output_file: %q is not a path", path)
	}
	if o.head == nil {
		return &destination{path: absolute(dir, path)}, nil
	}
	head, err := o.head.Bind(s)
	if err != nil {
		return nil, fmt.Errorf("output_file: %w", err)
	}
	head = head[:strings.LastIndexByte(head, '/')+1]
	d := &destination{within: absolute(dir, head), path: path[len(head):]}
	if !filepath.IsLocal(d.path) {
		return nil, fmt.Errorf("output_file: %s: %w %s", path, errLeaves, d.within)
	}
	return d, nil
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// sink takes the stdout of a command. What cannot be written to the file is told by close, and does not stop the command.
type sink struct {
	kept *stream
	file *os.File // nil: none
	err  error
}

func (s *sink) Write(p []byte) (int, error) {
	if s.file != nil && s.err == nil {
		_, s.err = s.file.Write(p)
	}
	return s.kept.Write(p)
}

// close returns what went wrong with the file.
func (s *sink) close() error {
	if s.file == nil {
		return nil
	}
	return errors.Join(s.err, s.file.Close())
}

// openOutput opens d when there is room for one more file.
func (r *run) openOutput(ctx context.Context, d *destination, kept *stream) (*sink, error) {
	if d == nil {
		return d.open(kept)
	}
	if err := r.dirError(); err != nil {
		return nil, err // it would be made anew, empty
	}
	var out *sink
	err := r.x.inRoom(ctx, func() (err error) {
		out, err = d.open(kept)
		return err
	})
	return out, err
}

// open makes the file, and the directories above it, and empties it if there is one.
func (d *destination) open(kept *stream) (*sink, error) {
	if d == nil {
		return &sink{kept: kept}, nil
	}
	file, err := d.create()
	return &sink{kept: kept, file: file}, err
}

func (d *destination) create() (*os.File, error) {
	const flags = os.O_CREATE | os.O_TRUNC | os.O_WRONLY
	if d.within == "" {
		if err := os.MkdirAll(filepath.Dir(d.path), 0o777); err != nil {
			return nil, err
		}
		return os.OpenFile(d.path, flags, 0o666)
	}
	if err := os.MkdirAll(d.within, 0o777); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(d.within)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	if err := root.MkdirAll(filepath.Dir(d.path), 0o777); err != nil {
		return nil, err
	}
	return root.OpenFile(d.path, flags, 0o666)
}

// outputFailure returns the failure of a step whose output_file could not be written, or the error when that is no fault of the step.
func (r *run) outputFailure(st *step, err error) (*Failure, error) {
	if own := r.own(err); own != nil {
		return nil, own
	}
	f := &Failure{Step: st.label, Failure: retry.Failure{Type: retry.TypeCommandFailed, Message: "output_file: " + err.Error(), ExitCode: -1}}
	if errors.Is(err, fs.ErrPermission) {
		f.Type = retry.TypePermission
	}
	return f, nil
}
