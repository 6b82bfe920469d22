//go:build unix

package main

import (
	"errors"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// usage is what one run took, its children included.
type usage struct {
	wall   time.Duration
	rusage *syscall.Rusage
}

// measure runs cmd and returns what it took. The memory is that of the largest single process.
func measure(cmd *exec.Cmd) (usage, error) {
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return usage{}, err
	}
	wall := time.Since(began)
	r, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return usage{}, errors.New("this system does not tell what a process used")
	}
	return usage{wall, r}, nil
}

func (u usage) seconds() float64 { return u.wall.Seconds() }

func (u usage) cpu() float64 {
	return time.Duration(u.rusage.Utime.Nano() + u.rusage.Stime.Nano()).Seconds()
}

// memory returns megabytes. Darwin counts in bytes, the others in kilobytes.
func (u usage) memory() float64 {
	if runtime.GOOS == "darwin" {
		return float64(u.rusage.Maxrss) / (1 << 20)
	}
	return float64(u.rusage.Maxrss) / (1 << 10)
}

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
