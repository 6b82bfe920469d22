package process

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// zombieState is SZOMB of sys/proc.h.
const zombieState = 5

// BootID is the same for every boot: the times of starts are those of the calendar here.
func BootID() string { return "-" }

// startIDOf returns when a process started, in microseconds.
func startIDOf(pid int) (string, bool) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return "", false
	}
	return memberOf(info).start, true
}

func memberOf(info *unix.KinfoProc) member {
	began := info.Proc.P_starttime
	session, err := unix.Getsid(int(info.Proc.P_pid))
	if err != nil {
		session = -1 // it has ended
	}
	return member{
		pid: int(info.Proc.P_pid), group: int(info.Eproc.Pgid), session: session,
		start:  strconv.FormatInt(began.Nano()/1000, 10),
		zombie: info.Proc.P_stat == zombieState,
	}
}

// processes returns all that can be seen.
func processes() ([]member, error) {
	infos, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, err
	}
	all := make([]member, len(infos))
	for i := range infos {
		all[i] = memberOf(&infos[i])
	}
	return all, nil
}

// environOf returns the arguments and variables that a process was started with, and a NUL byte after each. The system
// does not show the environment of its own programs.
func environOf(pid int) ([]byte, error) { return unix.SysctlRaw("kern.procargs2", pid) }
