//go:build unix

package jobs

import (
	"os"
	"syscall"
)

// Own reports whether the files of the job belong to the user of this process. Even a user who may read all
// files does not run commands for others.
func (j Job) Own() bool {
	info, err := os.Stat(j.StateDir())
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
