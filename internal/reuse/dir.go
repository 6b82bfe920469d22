package reuse

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"prodigy/internal/check"
	"prodigy/internal/events"
)

// missingFile is the Sum of a file that does not exist.
const missingFile = "missing"

// sameStat reports whether a file has not been touched since f was made, so that it need not be read again.
func sameStat(f events.File, info fs.FileInfo) bool {
	return f.Modified != 0 && f.Sum != "" && f.Sum != missingFile && f.Size == info.Size() &&
		f.Modified == info.ModTime().UnixNano()
}

// changedFile returns the path of the first file that is not the same in both lists, which are sorted by path, or "".
func changedFile(now, before []events.File) string {
	for i, f := range now {
		if i >= len(before) || f.Path < before[i].Path {
			return f.Path
		}
		if f.Path > before[i].Path {
			return before[i].Path
		}
		if f.Sum != before[i].Sum || f.Sum == "" {
			return f.Path
		}
	}
	if len(before) > len(now) {
		return before[len(now)].Path
	}
	return ""
}

// maxFiles is how many files an item may be made from.
const maxFiles = 10_000

// Dir finds and reads the files that items are made from. What it has read it does not read again while size
// and time stay. It is safe for use by several goroutines.
type Dir struct {
	dir string
	now func() time.Time

	mu sync.Mutex

	// read are the files that were read, by their paths.
	read map[string]events.File
}

// NewDir returns a Dir for paths from a directory.
func NewDir(dir string) *Dir { return &Dir{dir: dir, now: time.Now, read: map[string]events.File{}} }

// Local returns a path within the directory, with slashes, or an error if it leads out of it.
func (f *Dir) Local(path string) (string, error) {
	local := filepath.Clean(filepath.FromSlash(path))
	if filepath.IsAbs(local) {
		below, err := filepath.Rel(f.dir, local)
		if err != nil {
			return "", err
		}
		local = below
	}
	if path == "" || !filepath.IsLocal(local) {
		return "", &OutsideError{Path: path, Dir: f.dir}
	}
	return filepath.ToSlash(local), nil
}

// OutsideError is the error for a path that leads out of the directory of a job.
type OutsideError struct{ Path, Dir string }

func (e *OutsideError) Error() string {
	if e.Path == "" {
		return "the path of a file is empty"
	}
	return fmt.Sprintf("%s is not below %s", e.Path, e.Dir)
}

// Glob returns the paths of the files that match a pattern, sorted. A directory is all files in it.
func (f *Dir) Glob(pattern string) ([]string, error) {
	pattern, err := f.Local(pattern)
	if err != nil {
		return nil, err
	}
	matches, err := doublestar.Glob(os.DirFS(f.dir), pattern)
	if err != nil {
		return nil, err
	}
	return f.expand(matches)
}

// expand returns the paths of files, and of the files in directories among them, sorted, each once.
func (f *Dir) expand(paths []string) ([]string, error) {
	var all []string
	for _, path := range paths {
		err := filepath.WalkDir(f.Full(path), func(full string, entry fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				if full == f.Full(path) {
					all = append(all, path)
				}
				return nil // it has vanished
			case err != nil:
				return err
			case entry.IsDir():
				return nil
			}
			local, err := filepath.Rel(f.dir, full)
			if err == nil {
				all = append(all, filepath.ToSlash(local))
			}
			if len(all) > maxFiles {
				err = fmt.Errorf("%s: at most %d input files per item", path, maxFiles)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// Full returns the path of a file for the system.
func (f *Dir) Full(path string) string { return filepath.Join(f.dir, filepath.FromSlash(path)) }

// Of returns what the files at these paths are now, sorted by path. A directory is all files in it. Known are
// what some of them were before: a file whose size and time are still the same is not read.
func (f *Dir) Of(paths []string, known []events.File) ([]events.File, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	local := make([]string, len(paths))
	for i, path := range paths {
		var err error
		if local[i], err = f.Local(path); err != nil {
			return nil, err
		}
	}
	local, err := f.expand(local)
	if err != nil {
		return nil, err
	}
	all := make([]events.File, len(local))
	for i, path := range local {
		before := events.File{}
		name := strings.ToValidUTF8(path, "\ufffd")
		if at, ok := slices.BinarySearchFunc(known, name, func(k events.File, path string) int { return strings.Compare(k.Path, path) }); ok {
			before = known[at]
		}
		if all[i], err = f.one(path, before); err != nil {
			return nil, err
		}
		all[i].Path = name
	}
	return all, nil
}

// one returns what the file at a path is now.
func (f *Dir) one(path string, before events.File) (events.File, error) {
	info, err := os.Stat(f.Full(path))
	if errors.Is(err, fs.ErrNotExist) {
		return events.File{Path: path, Sum: missingFile}, nil
	}
	if err != nil {
		return events.File{}, err
	}
	if !info.Mode().IsRegular() {
		return events.File{}, fmt.Errorf("%s is not a file: %s", path, info.Mode().Type())
	}
	if sameStat(before, info) {
		return before, nil
	}
	f.mu.Lock()
	known := f.read[path]
	f.mu.Unlock()
	if sameStat(known, info) {
		return known, nil
	}
	found, err := f.sum(path)
	if err != nil || found.Modified == 0 {
		return found, err
	}
	f.mu.Lock()
	f.read[path] = found
	f.mu.Unlock()
	return found, nil
}

// young is the age up to which a file is read again though its time is the same: clocks of file systems are coarse.
const young = 2 * time.Second

// sum reads a file. One that changes meanwhile has no sum.
func (f *Dir) sum(path string) (events.File, error) {
	found := events.File{Path: path}
	file, err := os.Open(f.Full(path))
	if errors.Is(err, fs.ErrNotExist) {
		found.Sum = missingFile
		return found, nil
	}
	if err != nil {
		return found, err
	}
	defer check.Quietly(file.Close)
	before, err := file.Stat()
	if err != nil {
		return found, err
	}
	digest := sha256.New()
	size, err := io.Copy(digest, file)
	if err != nil {
		return found, fmt.Errorf("read %s: %w", path, err)
	}
	after, err := os.Stat(f.Full(path))
	if err != nil || !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) || after.Size() != size {
		return found, nil
	}
	found.Size, found.Sum = size, hex.EncodeToString(digest.Sum(nil)[:12])
	if f.now().Sub(after.ModTime()) >= young {
		found.Modified = after.ModTime().UnixNano()
	}
	return found, nil
}

// Since returns the files as they were when an attempt began, with those marked that have changed by now: what
// they were is then no longer known, since the attempt may have read either.
func (f *Dir) Since(began []events.File) []events.File {
	marked := slices.Clone(began)
	for i, was := range marked {
		is, err := f.one(was.Path, was)
		if err != nil || is.Sum != was.Sum {
			marked[i] = events.File{Path: was.Path}
		}
	}
	return marked
}
