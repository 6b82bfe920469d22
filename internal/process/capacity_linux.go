package process

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// fewProcesses is a limit below which it matters how many processes a user already has; to count them takes time.
const fewProcesses = 20_000

// processLimit returns how many processes and threads the user may have, 0 for any number, and how many there
// are besides this process. The limit does not bind root.
func processLimit() (most, others int) {
	if os.Geteuid() == 0 {
		return 0, 0
	}
	if most = softLimit(unix.RLIMIT_NPROC); most > 0 && most < fewProcesses {
		others = threadsOf(uint32(os.Getuid()), os.Getpid())
	}
	return most, others
}

// threadsOf counts the threads of a user's processes except one.
func threadsOf(uid uint32, except int) int {
	n := 0
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil || filepath.Base(dir) == strconv.Itoa(except) {
			continue
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Uid != uid {
			continue
		}
		if threads, err := os.ReadDir(filepath.Join(dir, "task")); err == nil {
			n += len(threads)
		}
	}
	return n
}
