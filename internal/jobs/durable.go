package jobs

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
)

// WriteFile replaces a file durably: temporary file, sync, rename, sync of the directory. The mode is 0600.
func WriteFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return Finish(f, path, err)
}

// Make replaces a file durably by what write writes. Until then it has a temporary name, which is always the same, so
// that no killed run leaves more than one. The mode is 0600.
func Make(temporary, path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return Finish(f, path, write(f))
}

// WriteNew makes a file durably, whole from the beginning. If there is one, the error is os.ErrExist.
func WriteNew(path string, data []byte) error {
	part := path + "." + rand.Text()
	defer func() { _ = os.Remove(part) }()
	if err := WriteFile(part, data); err != nil {
		return err
	}
	return os.Link(part, path)
}

// Finish syncs a new file, closes it and gives it its final name durably. After an error, such as that of what was
// written before, it removes the file.
func Finish(f *os.File, path string, err error) error {
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return Rename(f.Name(), path)
}

// Rename gives a synced file its final name durably, or removes it.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return errors.Join(err, os.Remove(from))
	}
	return SyncDir(filepath.Dir(to))
}

// SyncDir makes the names in a directory durable. Windows offers no way to and needs none.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// MakeDirs makes dir and the directories above it that are missing, mode 0700, durably.
func MakeDirs(dir string) error {
	parent := filepath.Dir(dir)
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, os.ErrNotExist) && parent != dir {
		if err := MakeDirs(parent); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o700)
	}
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return SyncDir(parent)
}

// ReplaceWorkflow makes source the workflow of the job and records m, with the digests of both. The previous
// ones are kept as workflow.1.yml, workflow.2.yml and so on. The workflow must be the one that ReadWorkflow
// returned for the recorded m.
func (j Job) ReplaceWorkflow(m *Meta, source []byte) error {
	before, err := os.ReadFile(j.WorkflowFile())
	if err != nil {
		return err
	}
	m.Digests = []string{Digest(source)}
	if bytes.Equal(source, before) {
		return j.WriteMeta(*m)
	}
	n := 1
	for exists(j.formerWorkflow(n)) {
		n++
	}
	m.Former = append(m.Former, make([]string, max(0, n-len(m.Former)))...)[:n]
	m.Former[n-1] = Digest(before)
	m.Digests = append(m.Digests, Digest(before)) // a crash may come before the workflow is replaced
	if err := j.WriteMeta(*m); err != nil {
		return err
	}
	if err := WriteFile(j.formerWorkflow(n), before); err != nil {
		return fmt.Errorf("record the workflow: %w", err)
	}
	if err := WriteFile(j.WorkflowFile(), source); err != nil {
		return fmt.Errorf("record the workflow: %w", err)
	}
	m.Digests = m.Digests[:1]
	return j.WriteMeta(*m)
}

func (j Job) formerWorkflow(n int) string { return j.state("workflow." + strconv.Itoa(n) + ".yml") }

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
