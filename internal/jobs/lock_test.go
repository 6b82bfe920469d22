package jobs

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestALockedJobIsRefusedWithTheProcessThatHasIt(t *testing.T) {
	job := create(t, Home{Root: t.TempDir()}, "r", "standard", day)
	if job.Running() {
		t.Error("running before the lock")
	}
	lock, err := job.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if !job.Running() {
		t.Error("not running with the lock")
	}
	_, err = job.Lock()
	var locked *LockedError
	if !errors.As(err, &locked) || !errors.Is(err, ErrLocked) || locked.PID != os.Getpid() || locked.JobID != job.ID {
		t.Fatalf("got %v, want a LockedError with process %d", err, os.Getpid())
	}
	if want := "job " + job.ID + " is running in process " + strconv.Itoa(os.Getpid()); err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if job.Running() {
		t.Error("running after the unlock")
	}
	again, err := job.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Unlock(); err != nil {
		t.Error(err)
	}
}

// The test runs itself as the process that holds the lock and is killed.
func TestTheLockOfADeadProcessIsFree(t *testing.T) {
	if root := os.Getenv("JOBS_TEST_HOLD"); root != "" {
		holdLock(t, root)
		return
	}
	h := Home{Root: t.TempDir()}
	job := create(t, h, "r", "standard", day)
	holder := exec.Command(os.Args[0], "-test.run=^TestTheLockOfADeadProcessIsFree$")
	holder.Env = append(os.Environ(), "JOBS_TEST_HOLD="+h.Root)
	stdout, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.StdinPipe(); err != nil { // open as long as the holder lives
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || line != "locked\n" {
		t.Fatalf("the holder said %q %v", line, err)
	}
	var locked *LockedError
	if _, err := job.Lock(); !errors.As(err, &locked) || locked.PID != holder.Process.Pid || !job.Running() {
		t.Errorf("got %v, running %v, want it locked by %d", err, job.Running(), holder.Process.Pid)
	}
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := holder.Wait(); err == nil {
		t.Error("the holder was not killed")
	}
	lock, err := job.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Unlock(); err != nil {
		t.Error(err)
	}
}

func holdLock(t *testing.T, root string) {
	job, err := Home{Root: root}.Find("latest")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := job.Lock(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stdout.WriteString("locked\n"); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until killed
}

// A command that was being started when its prodigy was killed holds the lock for a moment longer.
func TestTheLockOfADeadProcessIsAwaited(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("nothing is handed down there")
	}
	dead := exec.Command(os.Args[0], "-test.run=^$")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	job := create(t, Home{Root: t.TempDir()}, "r", "standard", day)
	synctest.Test(t, func(t *testing.T) {
		heir, err := job.Lock()
		if err != nil {
			t.Fatal(err)
		}
		if err := writePID(job.lockFile(), dead.Process.Pid); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, func() {
			if err := heir.Unlock(); err != nil {
				t.Error(err)
			}
		})
		lock, err := job.Lock()
		if err != nil {
			t.Fatalf("got %v, want the lock once the heir of process %d has let it go", err, dead.Process.Pid)
		}
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

func TestALockErrorWithoutAProcessStillSaysSo(t *testing.T) {
	if got := (&LockedError{JobID: "j"}).Error(); !strings.Contains(got, "another process") {
		t.Errorf("got %q", got)
	}
}

// The id in the lock file is believed if that process has the file open: between the lock and the writing of the id there is that of the
// process before, which may be any program by now.
func TestTheRunnerIsTheProcessThatHoldsTheLock(t *testing.T) {
	job := create(t, Home{Root: t.TempDir()}, "r", "standard", day)
	if pid := job.Runner(); pid != 0 {
		t.Errorf("before the lock: got %d", pid)
	}
	lock, err := job.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if pid := job.Runner(); pid != os.Getpid() {
		t.Errorf("with the lock: got %d, want %d", pid, os.Getpid())
	}
	if runtime.GOOS == "linux" {
		if err := writePID(job.lockFile(), os.Getppid()); err != nil {
			t.Fatal(err)
		}
		if pid := job.Runner(); pid != 0 {
			t.Errorf("with the id of a process that does not have it: got %d", pid)
		}
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if pid := job.Runner(); pid != 0 {
		t.Errorf("after the unlock: got %d", pid)
	}
}
