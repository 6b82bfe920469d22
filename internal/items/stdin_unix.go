//go:build unix

package items

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// interruptible returns a reader of in whose reads end with ctx. It only reads a file when there is data, so
// that no goroutine stays blocked in a read of an idle pipe or terminal. The caller must call done.
func interruptible(ctx context.Context, in io.Reader) (_ io.Reader, done func(), _ error) {
	file, ok := in.(*os.File)
	if !ok {
		return in, func() {}, nil
	}
	woken, wake, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = wake.Close() })
	done = func() {
		if stop() {
			_ = wake.Close()
		}
		_ = woken.Close()
	}
	return readerFunc(func(b []byte) (int, error) {
		if err := await(file.Fd(), woken.Fd()); err != nil {
			return 0, err
		}
		return during(ctx, file).Read(b)
	}), done, nil
}

// await waits until one of the two can be read or is closed.
func await(a, b uintptr) error {
	for {
		both := []unix.PollFd{{Fd: int32(a), Events: unix.POLLIN}, {Fd: int32(b), Events: unix.POLLIN}}
		if _, err := unix.Poll(both, -1); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
