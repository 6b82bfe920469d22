package events

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/jobs"
)

// file is what a log is written to. Write writes all of p or returns an error, as *os.File does.
type file interface {
	Name() string
	Write(p []byte) (int, error)
	Sync() error
	Close() error
}

// output is the file that a log is continued in.
type output struct {
	file file
	size int64                           // of the file
	next func(path string) (file, error) // begins another
}

func newOutput(f *os.File) (output, error) {
	info, err := f.Stat()
	if err != nil {
		return output{}, errors.Join(err, f.Close())
	}
	return output{f, info.Size(), func(path string) (file, error) { return createFile(path) }}, nil
}

// logFiles returns the paths of the log in dir, oldest first: their names sort by time.
func logFiles(dir string) ([]string, error) { return jobs.Segments(dir, "events-", ".jsonl") }

// nameLayout is the name of a log file, with the time when it was begun.
const nameLayout = "events-20060102T150405.000000Z.jsonl"

// nextPath returns the path of the log file that begins at now. It sorts behind the file before it, also when
// the clock was set back since.
func nextPath(dir, before string, now time.Time) string {
	before = jobs.UnpackedName(before)
	path := filepath.Join(dir, now.UTC().Format(nameLayout))
	if path > before {
		return path
	}
	t, err := time.Parse(nameLayout, filepath.Base(before))
	if err != nil {
		return strings.TrimSuffix(before, ".jsonl") + "0.jsonl" // a name that prodigy did not give
	}
	return filepath.Join(dir, t.Add(time.Microsecond).Format(nameLayout))
}

// createFile makes a log file and sees that its name is on disk.
func createFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := jobs.SyncDir(filepath.Dir(path)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Repair cuts an incomplete or damaged last line off the log in dir, and returns how many bytes that were. It
// is for whoever holds the lock of the job, before the log is read to go on with it: that record did not
// happen. Damage before the last line is left alone.
func Repair(dir string) (cut int64, err error) {
	files, err := logFiles(dir)
	if err != nil || len(files) == 0 || jobs.IsPacked(files[len(files)-1]) {
		return 0, err
	}
	f, err := os.OpenFile(files[len(files)-1], os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return 0, err
	}
	defer check.Join(&err, f.Close)
	lines, err := jobs.NewBackward(f)
	if err != nil {
		return 0, err
	}
	size := lines.End()
	text, whole, err := lines.Line()
	if _, wrong := Decode(text); err != nil || whole && wrong == nil {
		return 0, check.Unless(err, io.EOF)
	}
	end := lines.End()
	if err := errors.Join(f.Truncate(end), f.Sync()); err != nil {
		return 0, fmt.Errorf("remove the incomplete last line: %w", err)
	}
	text, _, err = lines.Line()
	if _, wrong := Decode(text); err == nil && wrong != nil {
		err = fmt.Errorf("%s is damaged: the line that ends at byte %d cannot be read", f.Name(), end)
	}
	return size - end, check.Unless(err, io.EOF)
}

// checkPlace returns an error when a file that is being written is no longer at its path. Then what is
// written goes nowhere.
func checkPlace(f file) error {
	open, ok := f.(*os.File)
	if !ok {
		return nil
	}
	held, err := open.Stat()
	if err != nil {
		return err
	}
	found, err := os.Stat(open.Name())
	if err == nil && !os.SameFile(held, found) {
		err = errors.New("the file was replaced")
	}
	if err != nil {
		return fmt.Errorf("%s was deleted or replaced during the run; its records are lost: %w",
			open.Name(), err)
	}
	return nil
}

// openNewest opens the last of the files of the log in dir for appending behind record last, less its torn last line.
func openNewest(dir string, files []string, last int64) (*os.File, error) {
	newest := files[len(files)-1]
	if _, err := Repair(dir); err != nil {
		return nil, err
	}
	r, err := Last(dir)
	if err == nil && r.Seq != last {
		err = fmt.Errorf("%s ends with record %d, expected %d: another process wrote to it", newest, r.Seq, last)
	}
	if err != nil {
		return nil, err
	}
	if jobs.IsPacked(newest) {
		return createFile(nextPath(dir, newest, time.Time{})) // a file behind it is begun
	}
	return os.OpenFile(newest, os.O_WRONLY|os.O_APPEND, 0)
}

// Last returns the last whole record of the log in dir, the zero Record when it has none. A directory without a log
// is an error. It reads little more than that.
func Last(dir string) (Record, error) {
	lines, err := new(filter).newest(dir, 1)
	if err != nil && !errors.Is(err, ErrTorn) || len(lines) == 0 {
		return Record{}, err
	}
	return Decode(lines[0])
}
