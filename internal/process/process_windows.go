package process

import (
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// group is a job object, which holds a process and all that it starts.
type group struct {
	id  int
	job windows.Handle // 0: there is none, only the process itself can be ended
}

// isolate lets cmd be sent a Ctrl-Break that does not reach us.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// There are no sessions, and no watcher is needed where job objects end with their owner.

// Detach does nothing here.
func Detach(*exec.Cmd) {}

func session() int { return -1 }

// adopt puts the process into a new job object that ends with its handle.
func adopt(p *os.Process) group {
	g := group{id: p.Pid}
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return g
	}
	if err := enclose(job, p.Pid); err != nil {
		_ = windows.CloseHandle(job)
		return g
	}
	g.job = job
	return g
}

func enclose(job windows.Handle, pid int) error {
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{
			LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
		},
	}
	_, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err != nil {
		return err
	}
	process, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(pid))
	if err != nil {
		return err
	}
	defer func() { _ = windows.CloseHandle(process) }()
	return windows.AssignProcessToJobObject(job, process)
}

func (g group) terminate() {
	_ = windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(g.id))
}

func (g group) kill() {
	if g.job != 0 {
		_ = windows.TerminateJobObject(g.job, 1)
		return
	}
	if p, err := os.FindProcess(g.id); err == nil {
		_ = p.Kill()
		_ = p.Release()
	}
}

func (g group) close() {
	if g.job != 0 {
		_ = windows.CloseHandle(g.job)
	}
}

func ending(state *os.ProcessState) Exit {
	return Exit{Code: state.ExitCode()}
}

// expire does nothing: a pipe has no deadline here, and its writers ended with the job object.
func expire(*os.File) {}

func rest(*os.File, []byte, func([]byte)) {}

func currentLimits() limits { return limits{} }

// SignalNumber returns 0: no command ends by a signal here.
func SignalNumber(string) int { return 0 }
