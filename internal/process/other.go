//go:build !linux

package process

import (
	"errors"
	"os"
	"os/exec"
)

func startChild(c Command) (child, error) { return startPiped(c) }

// awaitEnd waits until the process has ended. Its id, which is that of its group, is free from then on; it is
// not given away at once, because ids are handed out in turn or at random from many.
func awaitEnd(cmd *exec.Cmd) {
	// The result is kept in cmd.ProcessState, and the second Wait only says that there was a first.
	_ = cmd.Wait()
}

// MemoryFile returns errors.ErrUnsupported: on this system, other processes can open only files on a disk.
func MemoryFile(string) (file *os.File, path string, err error) {
	return nil, "", errors.ErrUnsupported
}

// oomCounts returns nothing: the system does not say which processes were killed for lack of memory.
func oomCounts() []string { return nil }
