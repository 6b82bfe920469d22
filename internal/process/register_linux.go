package process

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"prodigy/internal/check"
)

// BootID identifies this boot of the machine.
func BootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if id = bytes.TrimSpace(id); err != nil || len(id) == 0 {
		return "-"
	}
	return string(id)
}

// startIDOf identifies a process among all that have its id during this boot: by the inode of its pidfd, after a #, or
// where those are not of their own by when it started, in ticks since the boot. It is called for each command, and
// the inode costs the kernel a seventh of what the time does.
func startIDOf(pid int) (string, bool) {
	if _, inodes := pidfds(); inodes {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return "", false
		}
		var stat unix.Stat_t
		err = unix.Fstat(fd, &stat)
		_ = unix.Close(fd)
		return "#" + strconv.FormatUint(stat.Ino, 10), err == nil
	}
	m, ok := memberOf(pid)
	return m.start, ok
}

// memberOf reads the stat file of a process.
func memberOf(pid int) (member, bool) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return member{}, false
	}
	buf := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buf)
	n, err := unix.Read(fd, buf[:])
	_ = unix.Close(fd)
	if err != nil {
		return member{}, false
	}
	return parseStat(pid, buf[:n])
}

// parseStat reads the fields behind the name of the program, which may hold anything: the first is the state,
// the third the group, the fourth the session and the twentieth the time of the start.
func parseStat(pid int, stat []byte) (member, bool) {
	const state, group, session, start = 0, 2, 3, 19
	m, n := member{pid: pid}, 0
	var err error
	for field := range bytes.FieldsSeq(stat[bytes.LastIndexByte(stat, ')')+1:]) {
		switch n {
		case state:
			m.zombie = field[0] == 'Z' || field[0] == 'X'
		case group:
			m.group, err = strconv.Atoi(string(field))
		case session:
			m.session, err = strconv.Atoi(string(field))
		case start:
			m.start = string(field)
			return m, true
		}
		if err != nil {
			return member{}, false
		}
		n++
	}
	return member{}, false
}

// processes returns all that can be seen.
func processes() ([]member, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer check.Quietly(dir.Close)
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []member
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if m, ok := memberOf(pid); ok {
			all = append(all, m)
		}
	}
	return all, nil
}

// environOf returns the variables that a process was started with, and a NUL byte after each.
func environOf(pid int) ([]byte, error) {
	return os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
}
