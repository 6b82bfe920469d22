//go:build unix

package bench

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

// usage is what something took, its children included.
type usage struct {
	seconds float64
	cpu     float64 // seconds
	memory  float64 // of the largest process, in megabytes
}

// shrink gives back what memory this process does not need, and has Linux forget how much it had: a process counts the most that its
// parent ever had as its own, until the program of it is loaded.
func shrink() {
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // https://docs.kernel.org/filesystems/proc.html
}

// measure runs cmd and returns what it took.
func measure(cmd *exec.Cmd) (usage, error) {
	shrink()
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return usage{}, err
	}
	return used(cmd, time.Since(began))
}

// used returns what a process took that has ended.
func used(cmd *exec.Cmd, wall time.Duration) (usage, error) {
	r, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return usage{}, errors.New("this system does not tell what a process used")
	}
	unit := float64(1 << 10)
	if runtime.GOOS == "darwin" {
		unit = 1 << 20 // it counts in bytes, the others in kilobytes
	}
	return usage{
		seconds: wall.Seconds(),
		cpu:     time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds(),
		memory:  float64(r.Maxrss) / unit,
	}, nil
}

func (u usage) plus(v usage) usage {
	return usage{u.seconds + v.seconds, u.cpu + v.cpu, max(u.memory, v.memory)}
}

// per returns what one of n took; the memory is that of all.
func (u usage) per(n int) usage { return usage{u.seconds / float64(n), u.cpu / float64(n), u.memory} }

func wall(u usage) float64   { return u.seconds }
func rate(u usage) float64   { return 1 / u.seconds }
func cpu(u usage) float64    { return u.cpu }
func memory(u usage) float64 { return u.memory }

// buildNoop makes a program that does nothing, as small as the machine can: the usual ones load a locale first.
func buildNoop(dir string) (string, error) {
	noop := dir + "/noop"
	for _, static := range [][]string{{"-static"}, nil} {
		args := append(append([]string{"-O2", "-x", "c", "-o", noop}, static...), "-")
		cc := exec.Command("cc", args...)
		cc.Stdin = strings.NewReader("int main(void) { return 0; }\n")
		if cc.Run() == nil {
			return noop, nil
		}
	}
	return "", errors.New("build the program that does nothing: a C compiler called cc is needed")
}
