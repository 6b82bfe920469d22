package events

import (
	"errors"
	"os"
	"path/filepath"

	"prodigy/internal/jobs"
)

// Closed describes a finished log file by what is known without reading it: name, size and time.
type Closed struct {
	Name    string `json:"name"`
	Size    int64  `json:"size"`
	Changed int64  `json:"changed"` // when it was written last, in nanoseconds since 1970
}

// closedBefore returns the files of the log in dir that come before the one with this name.
func closedBefore(dir, name string) ([]Closed, error) {
	files, err := logFiles(dir)
	if err != nil {
		return nil, err
	}
	var before []Closed
	for _, path := range files {
		if filepath.Base(jobs.UnpackedName(path)) >= name {
			break
		}
		c, err := closedAt(path)
		if err != nil {
			return nil, err
		}
		before = append(before, c)
	}
	return before, nil
}

// closedAt looks at a file, also one that was compressed since its name was read.
func closedAt(path string) (Closed, error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) && !jobs.IsPacked(path) {
		info, err = os.Stat(path + jobs.PackedExt)
	}
	if err != nil {
		return Closed{}, err
	}
	return Closed{Name: info.Name(), Size: info.Size(), Changed: info.ModTime().UnixNano()}, nil
}

// became reports whether now is what c may be by now. How large it is when it is compressed cannot be known before.
func (c Closed) became(now Closed) bool {
	return c == now || !jobs.IsPacked(c.Name) && now.Name == c.Name+jobs.PackedExt
}
