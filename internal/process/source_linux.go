package process

import (
	"cmp"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// OpenSource opens a file as a shell does for a redirection, to be what a command reads from: a regular file
// that lies there for every process alike, which rules out what leads through the descriptors of a process.
// os.DevNull is taken too, and only that with a flag for writing. It waits for nobody, and makes no file. flag
// is as for os.OpenFile.
//
// A file that is open for writing would also be held, for a moment, by each command that prodigy starts at the
// same time, and for as long as that it could not be run as a program.
func OpenSource(path string, flag int) (*os.File, error) {
	if flag&(os.O_WRONLY|os.O_RDWR) != 0 && path != os.DevNull {
		return nil, fmt.Errorf("open %s for writing: %w", path, errIrregular)
	}
	flag &^= os.O_CREATE | os.O_TRUNC // mean nothing where the file is there, and nothing can be written to it
	how := unix.OpenHow{
		Flags:   uint64(flag | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_LARGEFILE),
		Resolve: unix.RESOLVE_NO_MAGICLINKS,
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	err = checkSource(fd, path)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flag&os.O_APPEND)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// checkSource refuses what is no regular file, and the files of procfs, which each process may see in its own way.
func checkSource(fd int, path string) error {
	var info unix.Stat_t
	var system unix.Statfs_t
	if err := cmp.Or(unix.Fstat(fd, &info), unix.Fstatfs(fd, &system)); err != nil {
		return err
	}
	kind := uint32(unix.S_IFREG)
	if path == os.DevNull {
		kind = unix.S_IFCHR
	}
	if info.Mode&unix.S_IFMT != kind || system.Type == unix.PROC_SUPER_MAGIC {
		return errIrregular
	}
	return nil
}
