package process

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"prodigy/internal/check"
)

// Watch waits until lifeline ends, which it does when the process that has its other end dies. It notes when
// that was, for LastDeath, and ends what the register at path says is left, unless the register has another
// mark than this by then: somebody else keeps it.
//
// The kernel gives a lifeline its end only after every command that was being started has become the program it
// was to run, since until then that has the other end too. So none is missed that carries its environment on.
//
// When a beat (see Register.Beat) is not followed by another in time, what runs is killed at once: its owner is frozen.
// It reads the register through an open file, so that the commands are found also when their directory is removed.
func Watch(ctx context.Context, lifeline io.Reader, register io.ReaderAt, path, mark string, grace time.Duration) error {
	read := func() (owner, []record, error) {
		data, err := io.ReadAll(io.NewSectionReader(register, 0, math.MaxInt64))
		o, running := parseRegister(data)
		if o.mark != mark {
			return owner{}, nil, err
		}
		return o, running, err
	}

	listen(lifeline, time.Now, func() {
		// Once, unlike after a death: its owner may go on and start others.
		if owner, running, err := read(); err == nil {
			_, _ = owner.hunt(running).send(group.kill)
		}
	})
	died := time.Now()
	owner, running, err := read()
	if err != nil || owner.mark == "" {
		return err
	}
	// For LastDeath. Without the note the death of the owner counts as one that nobody saw.
	_ = os.WriteFile(path+diedSuffix, fmt.Appendf(nil, "%s %d\n", mark, died.UnixNano()), 0o600)
	_, err = owner.end(ctx, running, grace)
	return err
}

// firstExtraFile is the descriptor of the register in a watcher.
const firstExtraFile = 3

// InheritedRegister returns the register of the run that has started this watcher. path is its name.
func InheritedRegister(path string) (*os.File, error) {
	if runtime.GOOS == "windows" { // no descriptors are inherited there
		return os.Open(path)
	}
	return os.NewFile(firstExtraFile, path), nil
}

// unreadFor is how long a watcher that has not been scheduled for a while gets to read what has been written meanwhile.
const unreadFor = 20 * time.Millisecond

// lookEvery is how often a watcher looks at the clock, since the machine may have been suspended: timers stand
// still then.
const lookEvery = time.Second

// listen calls silent when a beat is not followed by another in time, and returns when lifeline ends. A beat
// that was written in time counts also when it could not be read in time.
func listen(lifeline io.Reader, now func() time.Time, silent func()) {
	silence := time.NewTimer(0)
	silence.Stop()
	var last time.Time // beat
	var most time.Duration
	beats := make(chan time.Duration)
	go func() {
		defer close(beats)
		for lines := bufio.NewScanner(lifeline); lines.Scan(); { // an error is an end as well
			if d, err := time.ParseDuration(lines.Text()); err == nil {
				beats <- d
			}
		}
	}()
	unread := false
	for alive := true; alive; {
		var d time.Duration
		select {
		case d, alive = <-beats:
			unread = false
			silence.Stop()
			if d > 0 {
				last, most = now(), d
				silence.Reset(min(most, lookEvery))
			}
		case <-silence.C:
			if left := most - Elapsed(last, now()); left > 0 {
				silence.Reset(min(left, lookEvery))
				continue
			}
			if unread = !unread; unread {
				silence.Reset(unreadFor)
				continue
			}
			silent()
		}
	}
}

// asleep waits until its stdin ends, and becomes the command in its arguments. When the file of that has been removed
// meanwhile, it becomes the program that has started it, which the watcher gets as a descriptor.
const asleep = `trap '' HUP INT QUIT TERM; read -r line; [ -x "$0" ] || exec /proc/self/fd/4 "$@"; exec "$0" "$@"`

// Asleep returns the argv of a watcher that runs argv only once its owner has died. Until then it is a shell, which costs
// a tenth to start and to keep, but hears no beats.
func Asleep(argv []string) []string {
	if _, err := os.Stat("/bin/sh"); err != nil || runtime.GOOS == "windows" {
		return argv
	}
	return append([]string{"/bin/sh", "-c", asleep}, argv...)
}

// watcher is a process that calls Watch. Its zero value is none.
type watcher struct {
	argv     []string
	process  *exec.Cmd               // nil: none was started
	lifeline atomic.Pointer[os.File] // once there is one; only Beat writes to it
}

// start starts the watcher of a register in a session of its own, so that what ends the owner does not end it too. When
// it cannot be started, EndLeftovers does at the next resume what it would have done.
func (w *watcher) start(register *os.File) {
	if len(w.argv) == 0 {
		return
	}
	r, lifeline, err := os.Pipe()
	if err != nil {
		return
	}
	defer check.Quietly(r.Close)
	cmd := exec.Command(w.argv[0], w.argv[1:]...)
	cmd.Dir, cmd.Stdin = string(filepath.Separator), r
	if runtime.GOOS != "windows" {
		cmd.ExtraFiles = []*os.File{register}
	}
	if self, err := os.Open("/proc/self/exe"); err == nil {
		defer check.Quietly(self.Close)
		cmd.ExtraFiles = append(cmd.ExtraFiles, self)
	}
	Detach(cmd)
	if err := cmd.Start(); err != nil {
		_ = lifeline.Close()
		return
	}
	w.process = cmd
	w.lifeline.Store(lifeline)
}

// dismiss ends the watcher before it sees the end of its lifeline.
func (w *watcher) dismiss() {
	if w.process == nil {
		return
	}
	_ = w.process.Process.Kill()
	_ = w.process.Wait()
	_ = w.lifeline.Load().Close()
}
