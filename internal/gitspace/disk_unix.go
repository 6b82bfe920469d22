//go:build linux || darwin

package gitspace

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// freeSpace returns how many bytes the user may still write in dir, which need not exist. It reports false when that
// cannot be told.
func freeSpace(dir string) (int64, bool) {
	for !exists(dir) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	var system unix.Statfs_t
	if unix.Statfs(dir, &system) != nil {
		return 0, false
	}
	return int64(system.Bavail) * int64(system.Bsize), true
}
