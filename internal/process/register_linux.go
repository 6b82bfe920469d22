package process

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// bootID returns what tells this boot of the machine from every other.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if id = bytes.TrimSpace(id); err != nil || len(id) == 0 {
		return "-"
	}
	return string(id)
}

// startOf returns when a process started, in ticks since the boot.
func startOf(pid int) (string, bool) {
	m, ok := memberOf(pid)
	return m.start, ok
}

// memberOf reads the stat file of a process. It is read for each command, hence the plain calls.
func memberOf(pid int) (member, bool) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return member{}, false
	}
	var buf [1024]byte
	n, err := unix.Read(fd, buf[:])
	_ = unix.Close(fd)
	if err != nil {
		return member{}, false
	}
	return parseStat(pid, buf[:n])
}

// parseStat reads the fields behind the name of the program, which may hold anything: the first is the state, the third the
// group, the fourth the session and the twentieth the time of the start.
func parseStat(pid int, stat []byte) (member, bool) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return member{}, false
	}
	group, err := strconv.Atoi(string(fields[2]))
	if err != nil {
		return member{}, false
	}
	session, err := strconv.Atoi(string(fields[3]))
	if err != nil {
		return member{}, false
	}
	state := fields[0][0]
	return member{pid: pid, group: group, session: session, start: string(fields[19]), zombie: state == 'Z' || state == 'X'}, true
}

// processes returns all that can be seen.
func processes() ([]member, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
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

// carries tells whether a process was started with this variable.
func carries(pid int, variable string) bool {
	environ, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return false
	}
	for kv := range bytes.SplitSeq(environ, []byte{0}) {
		if string(kv) == variable {
			return true
		}
	}
	return false
}
