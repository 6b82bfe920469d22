//go:build linux || darwin

package gitspace

import "golang.org/x/sys/unix"

// freeSpace returns how many bytes the user may still write in dir. It reports false when that cannot be told.
func freeSpace(dir string) (int64, bool) {
	var system unix.Statfs_t
	if unix.Statfs(existing(dir), &system) != nil {
		return 0, false
	}
	return int64(system.Bavail) * int64(system.Bsize), true
}
