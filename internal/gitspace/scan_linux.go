package gitspace

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// readDir calls do for each entry of a directory, with a function that reads its attributes without following links.
func readDir(path string, do func(name string, kind fs.FileMode, look func() (fileStat, error)) error) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	list, err := dir.ReadDir(-1)
	if err != nil {
		return err
	}
	fd := int(dir.Fd())
	for _, one := range list {
		name := one.Name()
		look := func() (fileStat, error) {
			var st unix.Stat_t
			if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return fileStat{}, &fs.PathError{Op: "stat", Path: path + "/" + name, Err: err}
			}
			return fileStat{
				ctime: stamp{uint32(st.Ctim.Sec), uint32(st.Ctim.Nsec)},
				mtime: stamp{uint32(st.Mtim.Sec), uint32(st.Mtim.Nsec)},
				ino:   uint32(st.Ino), mode: st.Mode, uid: st.Uid, gid: st.Gid, size: uint32(st.Size),
			}, nil
		}
		if err := do(name, one.Type(), look); err != nil {
			return err
		}
	}
	return nil
}

// changeTime returns when a file, or what is known of it, was changed last.
func changeTime(info fs.FileInfo) stamp {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return stamp{uint32(st.Ctim.Sec), uint32(st.Ctim.Nsec)}
	}
	return stamp{}
}
