package gitspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"prodigy/internal/check"
)

// copyIfThere copies a file; one that is missing is no error.
func copyIfThere(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return check.Unless(err, fs.ErrNotExist)
	}
	return os.WriteFile(to, data, 0o644)
}

// copyWithTime copies a file with its time. The copy is there whole or not at all.
func copyWithTime(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	half := to + ".tmp"
	err = os.WriteFile(half, data, 0o666)
	if err == nil {
		err = os.Chtimes(half, info.ModTime(), info.ModTime())
	}
	if err == nil {
		err = os.Rename(half, to)
	}
	return err
}

// removeAll is os.RemoveAll, also for directories whose owner may not write to them.
func removeAll(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() {
			_ = os.Chmod(name, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// within calls do with a directory, out of which no name and no link leads it.
func within(dir string, do func(root *os.Root) error) error {
	if !isDir(dir) { // it may be a pipe, which would be waited for
		return fmt.Errorf("%s is not a directory", dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	return errors.Join(do(root), root.Close())
}

// isDir reports whether a name is that of a directory. A symbolic link to one does not count.
func isDir(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.IsDir()
}

// exists reports whether there is something with a name.
func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// isEmpty reports whether a directory can be read and has nothing in it.
func isEmpty(dir string) bool {
	all, err := os.ReadDir(dir)
	return err == nil && len(all) == 0
}
