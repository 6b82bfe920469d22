package process

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// shortages are the errors of a process, a user or a machine that has used up its files, processes or memory.
var shortages = []struct {
	err   error
	words string
}{
	{syscall.EMFILE, "too many open files"},
	{syscall.ENFILE, "too many open files in the system"},
	{syscall.EAGAIN, "too many processes"},
	{syscall.ENOMEM, "not enough memory"},
}

// Short reports whether err says that there was no file descriptor, process or memory left. No command is to
// blame for that, and it may work once others have ended.
func Short(err error) bool { return Shortage(err) != "" }

// Shortage says what was short, or nothing when err is no shortage.
func Shortage(err error) string {
	for _, s := range shortages {
		if errors.Is(err, s.err) {
			return s.words
		}
	}
	return ""
}

// CheckDir returns what keeps a command from running in dir, or nil.
func CheckDir(dir string) error {
	_, err := os.Stat(dir + string(os.PathSeparator) + ".") // fails as well if dir is no directory, or may not be entered
	var at *fs.PathError
	if errors.As(err, &at) {
		at.Path = dir
	}
	return err
}
