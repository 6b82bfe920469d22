//go:build unix

package process

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pipeCapacity is the most that a pipe holds, as unprivileged programs can set it.
const pipeCapacity = 1 << 20

// group is a process group; its id is that of its leader.
type group struct{ id int }

// isolate makes cmd the leader of a group of its own.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// Detach makes cmd the leader of a session of its own, so that signals from this one's terminal do not reach
// it. On Windows it does nothing.
func Detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
}

// session returns the session of this process, or -1.
func session() int {
	id, err := unix.Getsid(0)
	if err != nil {
		return -1
	}
	return id
}

func adopt(p *os.Process) group { return group{id: p.Pid} }

// terminate, kill and close ignore errors: a group that is gone needs no signal.
func (g group) terminate() { _ = unix.Kill(-g.id, unix.SIGTERM) }
func (g group) kill()      { _ = unix.Kill(-g.id, unix.SIGKILL) }
func (g group) close()     {}

// ending returns the exit code, or -1 and the signal.
func ending(state *os.ProcessState) Exit { return exitOf(state.Sys().(syscall.WaitStatus)) }

func exitOf(status syscall.WaitStatus) Exit {
	if !status.Signaled() {
		return Exit{Code: status.ExitStatus()}
	}
	exit := Exit{
		Code: -1, Signal: unix.SignalName(status.Signal()), Number: int(status.Signal()), Core: status.CoreDump(),
	}
	if exit.Signal == "" {
		exit.Signal = fmt.Sprintf("signal %d", exit.Number)
	}
	return exit
}

// SignalNumber returns the number of a signal by the name that Exit has of it, or 0.
func SignalNumber(name string) int { return int(unix.SignalNum(name)) }

// expire ends a Read of r that waits.
func expire(r *os.File) {
	_ = r.SetReadDeadline(time.Unix(1, 0))
}

// rest delivers what the pipe holds and does not wait for more. It ends though somebody still writes.
func rest(r *os.File, buf []byte, deliver func([]byte)) {
	conn, err := r.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) {
		for left := pipeCapacity; left > 0; {
			n, err := unix.Read(int(fd), buf)
			if err == unix.EINTR {
				continue
			}
			if n <= 0 {
				return
			}
			deliver(buf[:n])
			left -= n
		}
	})
}

func currentLimits() limits {
	l := limits{files: softLimit(unix.RLIMIT_NOFILE)}
	if runtime.GOOS == "linux" && os.Geteuid() != 0 { // it does not bind root
		l.processes = softLimit(unix.RLIMIT_NPROC)
	}
	return l
}

// softLimit returns the limit of a resource, or 0 if it has none.
func softLimit(resource int) int {
	var r unix.Rlimit
	if err := unix.Getrlimit(resource, &r); err != nil || uint64(r.Cur) > math.MaxInt32 {
		return 0
	}
	return int(r.Cur)
}
