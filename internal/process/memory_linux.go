package process

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// MemoryFile makes a private file that is on no disk, and returns the path by which other processes of the user
// open it. It is gone when the file is closed or this process ends, however it does. The error is
// errors.ErrUnsupported where the system has no such files.
func MemoryFile(content string) (file *os.File, path string, err error) {
	fd, err := unix.MemfdCreate("prodigy", unix.MFD_CLOEXEC)
	switch {
	case errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM):
		return nil, "", errors.ErrUnsupported
	case err != nil:
		return nil, "", fmt.Errorf("create a file in memory: %w", err)
	}
	file = os.NewFile(uintptr(fd), "memory")
	path = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd)
	if err = file.Chmod(0o600); err == nil { // ssh takes no other for a key
		_, err = file.WriteString(content)
	}
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("write a file in memory: %w", err), file.Close())
	}
	// The path does not lead to it where /proc is missing or shows other processes.
	there, missing := os.Stat(path)
	here, err := file.Stat()
	if cmp.Or(missing, err) != nil || !os.SameFile(here, there) {
		return nil, "", errors.Join(errors.ErrUnsupported, file.Close())
	}
	return file, path, nil
}
