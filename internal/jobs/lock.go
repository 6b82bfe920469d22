package jobs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"prodigy/internal/check"
)

// LockedError means that another process holds the lock of a job.
type LockedError struct {
	JobID string
	PID   int // 0 when it could not be read
}

// Error names the process if it is known.
func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("job %s is running in another process", e.JobID)
	}
	return fmt.Sprintf("job %s is running in process %d", e.JobID, e.PID)
}

// Unwrap returns ErrLocked.
func (e *LockedError) Unwrap() error { return ErrLocked }

// Lock is held while a process works on a job. The kernel frees it when the process dies.
type Lock struct{ *flock.Flock }

const (
	// lockPatience is longer than a concurrent Running holds the lock to test it.
	lockPatience = 50 * time.Millisecond
	// heirPatience outlasts the start of a command. A process that was being started when its parent was
	// killed has the lock of the dead one until it becomes the program that it is to run, which takes its
	// time on a busy machine.
	heirPatience = 5 * time.Second
)

// Lock acquires the lock of the job, or returns a *LockedError.
func (j Job) Lock() (*Lock, error) {
	file := flock.New(j.lockFile())
	err := tryLock(file, lockPatience)
	if errors.Is(err, context.DeadlineExceeded) && gone(readPID(j.lockFile())) {
		err = tryLock(file, heirPatience)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, &LockedError{JobID: j.ID, PID: readPID(j.lockFile())}
	case err != nil:
		return nil, fmt.Errorf("lock job %s: %w", j.ID, err)
	}
	if err := writePID(j.lockFile(), os.Getpid()); err != nil {
		return nil, fmt.Errorf("lock job %s: %w", j.ID, errors.Join(err, file.Unlock()))
	}
	return &Lock{file}, nil
}

// tryLock locks a file that another process may be about to free. However long this process is kept waiting,
// it tries at the beginning and after the patience.
func tryLock(file *flock.Flock, patience time.Duration) error {
	for until := time.Now().Add(patience); ; time.Sleep(lockPatience / 10) {
		over := !time.Now().Before(until)
		locked, err := file.TryLock()
		if locked || err != nil {
			return err
		}
		if over {
			return context.DeadlineExceeded
		}
	}
}

// gone reports whether the process certainly does not exist. On Windows it cannot know.
func gone(pid int) bool {
	if pid <= 0 {
		return false
	}
	p, err := os.FindProcess(pid)
	return err == nil && errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// LockWorker makes the directory of a worker and locks it, so that no other process uses it. The kernel frees
// it when the process dies.
func LockWorker(dir string) (unlock func() error, err error) {
	if err := MakeDirs(dir); err != nil {
		return nil, err
	}
	file := flock.New(filepath.Join(dir, "lock"))
	locked, err := file.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if !locked {
		return nil, fmt.Errorf("another worker uses %s", dir)
	}
	return file.Unlock, nil
}

// Running reports whether a process holds the lock.
func (j Job) Running() bool {
	if _, err := os.Stat(j.lockFile()); err != nil {
		return false
	}
	file := flock.New(j.lockFile(), flock.SetFlag(os.O_RDWR))
	free, err := file.TryRLock()
	if err == nil && free {
		_ = file.Unlock() // closing the file frees it in any case
	}
	return err == nil && !free
}

// Runner returns the id of the process that holds the lock, or 0 if none does, or it cannot be told which.
func (j Job) Runner() int {
	if !j.Running() {
		return 0
	}
	pid := readPID(j.lockFile())
	if pid == 0 || gone(pid) || !hasOpen(pid, j.lockFile()) {
		return 0
	}
	return pid
}

// Suspended reports whether a process stands still, as after SIGSTOP. Only Linux tells.
func Suspended(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	text := string(stat)
	// The name of the program may have anything in it.
	state := strings.TrimSpace(text[strings.LastIndexByte(text, ')')+1:])
	return strings.HasPrefix(state, "T")
}

// hasOpen reports whether a process has a file open. Where the system has no /proc it is believed to: a
// process that got the lock just now may not have written its id yet, so that there is that of the one
// before, and by now of another program.
func hasOpen(pid int, path string) bool {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		return true
	}
	wanted, err := os.Stat(path)
	if err != nil {
		return false
	}
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	open, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, fd := range open {
		if found, err := os.Stat(filepath.Join(dir, fd.Name())); err == nil && os.SameFile(found, wanted) {
			return true
		}
	}
	return false
}

// The process id stands behind the first byte of the lock file, at a fixed width: Windows locks that byte
// against all other handles and would refuse to cut the file.
const (
	pidOffset = 1
	pidWidth  = 20
)

func writePID(path string, pid int) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(fmt.Appendf(nil, "%-*d\n", pidWidth, pid), pidOffset)
	return errors.Join(err, f.Close())
}

// readPID returns 0 when there is no process id.
func readPID(path string) int {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer check.Quietly(f.Close)
	var text [pidWidth]byte
	n, _ := f.ReadAt(text[:], pidOffset)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text[:n])))
	if err != nil {
		return 0
	}
	return pid
}
