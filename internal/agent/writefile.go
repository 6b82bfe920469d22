package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"prodigy/internal/retry"
	"prodigy/internal/template"
	"prodigy/internal/workflow"
)

// writeFile is a step that writes a file in the working directory. Its path and its content are data: no path leads out of the
// directory, and no value changes the structure of a JSON or YAML document.
type writeFile struct {
	*workflow.WriteFile
	path    *template.Plain
	content *template.Plain
}

func buildWriteFile(c *compiler, s *step, p place) command {
	w := s.WriteFile
	f := &writeFile{WriteFile: w, path: c.plain(s, w.Path, p), content: c.plain(s, w.Content, p)}
	if path := w.Path.Value; path != "" && !strings.Contains(path, "$") { // else it is known when the step runs
		c.failed(s, w.Path.At, checkPath(path))
	}
	if f.content != nil {
		c.failed(s, w.Content.At, checkDocument(f.content, w.Format))
	}
	return f
}

func (f *writeFile) bind(r template.Resolver, _ *Executor) (call, error) {
	path, err := f.path.Bind(r)
	if err != nil {
		return call{}, err
	}
	content, err := fillDocument(f.content, f.Format, r)
	if err != nil {
		return call{}, err
	}
	return call{does: func(ctx context.Context, r *run, st *step, b bound) (result, *Failure, error) {
		began := time.Now()
		err := r.x.inRoom(ctx, func() error { return f.write(b.dir, path, content) })
		if own := r.own(err); own != nil {
			return notRun, nil, own
		}
		if err != nil {
			return result{code: -1, duration: time.Since(began)}, f.failure(st, err), nil
		}
		return result{output: path, duration: time.Since(began)}, nil, nil
	}}, nil
}

func (f *writeFile) failure(st *step, err error) *Failure {
	failure := &Failure{Step: st.label, Failure: retry.Failure{Message: err.Error(), ExitCode: -1}}
	if errors.Is(err, errOutside) {
		failure.Type = retry.TypeTemplate
	}
	return failure
}

// errOutside is what is wrong with a path that leads out of the working directory.
var errOutside = errors.New("the path leads out of the working directory")

// checkPath refuses a path that is none of a file in the working directory, whatever links there are.
func checkPath(path string) error {
	switch {
	case path == "" || strings.HasSuffix(path, "/"):
		return fmt.Errorf("write_file: %q is not the name of a file", path)
	case !filepath.IsLocal(path):
		return fmt.Errorf("write_file: %w: %q", errOutside, path)
	}
	return nil
}

// write writes the file below dir at once: whoever reads it sees all of the old content or all of the new.
func (f *writeFile) write(dir, path, content string) error {
	if err := checkPath(path); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("write_file: %w", err)
	}
	defer func() { _ = root.Close() }()
	if parent := filepath.Dir(path); f.CreateDirs && parent != "." {
		if err := root.MkdirAll(parent, 0o777); err != nil {
			return fmt.Errorf("write_file: %w", outside(err))
		}
	}
	if err := f.replace(root, filepath.Clean(path), content); err != nil {
		return fmt.Errorf("write_file: %w", outside(err))
	}
	return nil
}

// outside marks the error of os.Root that has no name there.
func outside(err error) error {
	if strings.Contains(err.Error(), "path escapes from parent") {
		return fmt.Errorf("%w: %w", errOutside, err)
	}
	return err
}

// replace writes a new file beside the one at path and gives it that name.
func (f *writeFile) replace(root *os.Root, path, content string) (err error) {
	beside := filepath.Join(filepath.Dir(path), ".prodigy-"+rand.Text())
	mode, known := f.mode(root, path)
	defer func() {
		if err != nil {
			_ = root.Remove(beside)
		}
	}()
	if err := fill(root, beside, content); err != nil {
		return err
	}
	file, err := root.OpenFile(beside, toSync(), 0)
	if err != nil {
		return err
	}
	if known {
		err = file.Chmod(mode)
	}
	if err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return root.Rename(beside, path)
}

// toSync returns how a file is opened to be synced. Windows wants to be allowed to write for that, and runs what others may write.
func toSync() int {
	if runtime.GOOS == "windows" {
		return os.O_RDWR
	}
	return os.O_RDONLY
}

// fill makes a file. No command is started while it is open for writing: that would hold it for a moment longer, and a file that
// somebody holds so cannot be run, which may be the next step.
func fill(root *os.Root, path, content string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	file, err := root.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteString(content)
	return errors.Join(err, file.Close())
}

// mode returns the permissions that the file is to have: those that the step says, else those that it has.
func (f *writeFile) mode(root *os.Root, path string) (fs.FileMode, bool) {
	if f.Mode != nil {
		return fs.FileMode(*f.Mode), true
	}
	info, err := root.Stat(path)
	if err != nil {
		return 0, false
	}
	return info.Mode().Perm(), true
}

func (f *writeFile) render(r template.Resolver) string {
	return "write_file " + f.path.Render(r) + "\n" + f.content.Render(r)
}
