package events

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"prodigy/internal/jobs"
)

// file is what a log is written to. Write writes all of p or returns an error, as *os.File does.
type file interface {
	Write(p []byte) (int, error)
	Sync() error
	Close() error
}

// logFiles returns the paths of the log in dir, oldest first: their names sort by time.
func logFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "events-") && strings.HasSuffix(e.Name(), ".jsonl") {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, nil
}

// createFile makes the log file of time now and sees that its name is on disk.
func createFile(dir string, now time.Time) (*os.File, error) {
	if err := jobs.MakeDirs(dir); err != nil {
		return nil, err
	}
	name := "events-" + now.UTC().Format("20060102T150405.000000Z") + ".jsonl"
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := jobs.SyncDir(dir); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// openNewest opens the newest log file in dir for appending, less its torn last line, and returns how much was cut off.
func openNewest(dir string, last int64) (*os.File, int64, error) {
	files, err := logFiles(dir)
	if err != nil {
		return nil, 0, err
	}
	if len(files) == 0 {
		return nil, 0, fmt.Errorf("no log in %s", dir)
	}
	f, err := os.OpenFile(files[len(files)-1], os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return nil, 0, err
	}
	seq, cut, err := repair(f)
	if err == nil && seq == 0 && len(files) > 1 {
		seq, err = lastSeq(files[len(files)-2])
	}
	if err == nil && seq != last {
		err = fmt.Errorf("%s ends with record %d, not with %d: somebody else has written to it", f.Name(), seq, last)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, cut, nil
}

// repair cuts a torn or unreadable last line off f. It returns the number of the last record, 0 when there is none, and how
// many bytes it cut.
func repair(f *os.File) (seq, cut int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	line, err := lastLine(f, info.Size())
	if err != nil || len(line) == 0 {
		return 0, 0, err
	}
	if r, ok := wholeRecord(line); ok {
		return r.Seq, 0, nil
	}
	end := info.Size() - int64(len(line))
	if err := errors.Join(f.Truncate(end), f.Sync()); err != nil {
		return 0, 0, fmt.Errorf("cut the torn last line off: %w", err)
	}
	seq, err = seqBefore(f, end)
	return seq, int64(len(line)), err
}

// lastSeq returns the number of the last record in the file at path.
func lastSeq(path string) (seq int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return seqBefore(f, info.Size())
}

// seqBefore returns the number of the record that ends at offset end of f, 0 at its beginning.
func seqBefore(f *os.File, end int64) (int64, error) {
	line, err := lastLine(f, end)
	if err != nil || len(line) == 0 {
		return 0, err
	}
	r, ok := wholeRecord(line)
	if !ok {
		return 0, fmt.Errorf("%s is damaged: the line that ends at byte %d cannot be read", f.Name(), end)
	}
	return r.Seq, nil
}

func wholeRecord(line []byte) (Record, bool) {
	if !bytes.HasSuffix(line, []byte("\n")) {
		return Record{}, false
	}
	r, err := Decode(line)
	return r, err == nil
}

// lastLine returns the line of f that ends at offset end, with its newline if it has one, reading backwards.
func lastLine(f io.ReaderAt, end int64) ([]byte, error) {
	var line []byte
	for end > 0 {
		n := min(end, 64<<10)
		chunk := make([]byte, n, n+int64(len(line)))
		if _, err := f.ReadAt(chunk, end-n); err != nil {
			return nil, err
		}
		line = append(chunk, line...)
		end -= n
		if i := bytes.LastIndexByte(line[:len(line)-1], '\n'); i >= 0 {
			return line[i+1:], nil
		}
	}
	return line, nil
}
