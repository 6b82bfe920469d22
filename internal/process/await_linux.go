package process

import (
	"os/exec"

	"golang.org/x/sys/unix"
)

// awaitEnd waits until the process has ended and leaves the rest to cmd.Wait: until then its id, which is that
// of its group, is given to nobody else and can be signalled without harm.
func awaitEnd(cmd *exec.Cmd) {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}
