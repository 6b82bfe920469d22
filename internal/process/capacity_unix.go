//go:build unix

package process

import (
	"math"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

func currentLimits() limits {
	l := limits{files: softLimit(unix.RLIMIT_NOFILE)}
	if runtime.GOOS == "linux" && os.Geteuid() != 0 { // it does not bind root
		l.processes = softLimit(unix.RLIMIT_NPROC)
	}
	return l
}

// softLimit returns the limit of a resource, 0 when there is none.
func softLimit(resource int) int {
	var r unix.Rlimit
	if err := unix.Getrlimit(resource, &r); err != nil || uint64(r.Cur) > math.MaxInt32 {
		return 0
	}
	return int(r.Cur)
}
