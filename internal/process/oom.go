package process

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"sync"
)

// OOMKills counts the processes that the kernel has killed for lack of memory: those of the control group of
// prodigy and of groups below it, or, where that cannot be told, those of the whole machine. Only on Linux is
// there such a count. It is safe for concurrent use; a nil OOMKills knows of none.
type OOMKills struct {
	paths []string // of files that may have the count, the best first
	find  sync.Once
	file  io.ReaderAt // nil: there is none
}

// NewOOMKills returns the count of this system.
func NewOOMKills() *OOMKills { return &OOMKills{paths: oomCounts()} }

// count returns how many processes have been killed so far. It reports false if that cannot be told.
func (k *OOMKills) count() (int64, bool) {
	if k == nil {
		return 0, false
	}
	k.find.Do(func() {
		for _, path := range k.paths {
			file, err := os.Open(path)
			if err != nil {
				continue
			}
			if _, ok := oomCount(file); ok {
				k.file = file // stays open, since each command reads it
				return
			}
			_ = file.Close()
		}
	})
	if k.file == nil {
		return 0, false
	}
	return oomCount(k.file)
}

// oomCount reads the line "oom_kill N".
func oomCount(file io.ReaderAt) (int64, bool) {
	buffer := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buffer)
	n, err := file.ReadAt(buffer[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, false
	}
	for line := range bytes.Lines(buffer[:n]) {
		if value, ok := bytes.CutPrefix(line, []byte("oom_kill ")); ok {
			count, err := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
			return count, err == nil
		}
	}
	return 0, false
}
