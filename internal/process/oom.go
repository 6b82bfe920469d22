package process

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
)

// OOMKills counts the processes that the kernel has killed for lack of memory: those of the control group of
// prodigy and of groups below it, or, where that cannot be told, those of the whole machine. Only on Linux is
// there such a count. It is safe for concurrent use; a nil OOMKills knows of none.
type OOMKills struct {
	file io.ReaderAt // that has the count, which stays open, since each command reads it
}

// NewOOMKills returns the count of this system.
func NewOOMKills() *OOMKills { return oomKillsIn(oomCounts()) }

// oomKillsIn returns the count in the first of some files that has one.
func oomKillsIn(paths []string) *OOMKills {
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			continue
		}
		if _, ok := oomCount(file); ok {
			return &OOMKills{file}
		}
		_ = file.Close()
	}
	return nil
}

// count returns how many processes have been killed so far. It reports false if that cannot be told.
func (k *OOMKills) count() (int64, bool) {
	if k == nil {
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

// killedHard reports whether a command ended by SIGKILL, or its shell says so of a program.
func (e Exit) killedHard() bool { return e.Signal == "SIGKILL" || e.Code == 128+9 }
