//go:build linux || darwin

package term

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// keyEvery is how often ReadKeys looks whether it is to end, and whether the process is in the foreground again.
const keyEvery = 250 * time.Millisecond

// ReadKeys calls key with each byte that is typed on the terminal f, until ctx ends. The terminal does not echo, and
// gives keys at once, but signals such as Ctrl-C come as ever; it is as it was when ReadKeys returns. While the process
// is in the background it leaves the terminal to the others: it neither reads nor changes it.
func ReadKeys(ctx context.Context, f *os.File, key func(byte)) error {
	fd := int(f.Fd())
	saved, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return err
	}
	resumed := make(chan os.Signal, 1)
	signal.Notify(resumed, unix.SIGCONT) // a shell that had stopped the process may have changed the modes
	defer signal.Stop(resumed)
	ours := *saved
	ours.Lflag &^= unix.ICANON | unix.ECHO
	ours.Cc[unix.VMIN], ours.Cc[unix.VTIME] = 1, 0
	set := false
	defer func() {
		if set && inForeground(fd) {
			_ = unix.IoctlSetTermios(fd, setTermios, saved) // the terminal is gone, then
		}
	}()
	buf := make([]byte, 64)
	for ctx.Err() == nil {
		if !inForeground(fd) {
			set = false
			select {
			case <-ctx.Done():
			case <-resumed:
			case <-time.After(keyEvery):
			}
			continue
		}
		select {
		case <-resumed:
			set = false
		default:
		}
		if !set {
			if err := unix.IoctlSetTermios(fd, setTermios, &ours); err != nil {
				return err
			}
			set = true
		}
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(ready, int(keyEvery/time.Millisecond))
		switch {
		case errors.Is(err, unix.EINTR) || err == nil && n == 0:
			continue
		case err != nil:
			return err
		case ready[0].Revents&unix.POLLIN == 0:
			return errors.New("the terminal is gone")
		case ctx.Err() != nil || !inForeground(fd): // what is typed is for others
			continue
		}
		n, err = unix.Read(fd, buf)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue
		}
		if err != nil || n <= 0 {
			return err
		}
		for _, b := range buf[:n] {
			key(b)
		}
	}
	return nil
}

// inForeground reports whether the process is of the group that the terminal is for.
func inForeground(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
