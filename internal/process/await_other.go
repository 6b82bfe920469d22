//go:build !linux

package process

import "os/exec"

// awaitEnd waits until the process has ended. Its id, which is that of its group, is free from then on; it is
// not given away at once, because ids are handed out in turn or at random from many.
func awaitEnd(cmd *exec.Cmd) {
	// The result is kept in cmd.ProcessState, and the second Wait only says that there was a first.
	_ = cmd.Wait()
}
