package process

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// drainStep is how many milliseconds pass at most until drainRest sees that it has expired.
const drainStep = 10

// polled is a child that one thread waits for, its output and its end alike: to wake other goroutines for these
// costs more than a short command takes.
type polled struct {
	id      int
	pidfd   int
	streams [2]stream
	expired atomic.Bool
}

var _ child = (*polled)(nil)

// stream carries what is read from a pipe to a writer.
type stream struct {
	fd int // -1: there is none, or nobody holds the other end any more
	once
}

// startChild starts a command in the cheapest way that the kernel has.
func startChild(c Command) (child, error) {
	if has, _ := pidfds(); !has {
		return startPiped(c)
	}
	return startPolled(c)
}

// pidfds reports whether a file can be polled for the end of a process (from Linux 5.3), and whether each such file has
// an inode of its own (from Linux 6.9). A system of 32 bits does not show all of its digits.
var pidfds = sync.OnceValues(func() (has, inodes bool) {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return Short(err), false // a shortage says nothing about the kernel
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Statfs_t
	return true, unix.Fstatfs(fd, &stat) == nil && stat.Type == unix.PID_FS_MAGIC && strconv.IntSize == 64
})

// devNull stays open for all commands.
var devNull = sync.OnceValues(openNull)

func openNull() (int, error) { return unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0) }

func startPolled(c Command) (child, error) {
	cmd := c.command()
	if cmd.Err != nil {
		return nil, startError(c, cmd.Err)
	}
	null, err := devNull()
	if err != nil { // when it was first asked for; it need not be so now
		if null, err = openNull(); err != nil {
			return nil, fmt.Errorf("open %s: %w", os.DevNull, err)
		}
		defer func() { _ = unix.Close(null) }()
	}
	p := &polled{pidfd: -1, streams: [2]stream{{fd: -1}, {fd: -1}}}
	ends := [3]uintptr{uintptr(null), uintptr(null), uintptr(null)}
	pipes, err := p.connect(&ends, c)
	if err == nil {
		p.id, err = syscall.ForkExec(cmd.Path, cmd.Args, &syscall.ProcAttr{
			Dir: cmd.Dir, Env: cmd.Env, Files: ends[:], Sys: &syscall.SysProcAttr{Setpgid: true, PidFD: &p.pidfd},
		})
		if err != nil {
			err = startError(c, err)
		}
	}
	for _, end := range pipes {
		_ = unix.Close(end)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// connect puts into ends what the command has: the files of c, and a pipe for each of its other writers. It
// returns the ends of these.
func (p *polled) connect(ends *[3]uintptr, c Command) (pipes []int, err error) {
	if c.Stdin != nil {
		ends[0] = c.Stdin.Fd()
	}
	for i, to := range []io.Writer{c.Stdout, c.Stderr} {
		file, isFile := to.(*os.File)
		switch {
		case to == nil:
		case isFile:
			ends[1+i] = file.Fd()
		case i == 1 && to == c.Stdout:
			ends[2] = ends[1]
		default:
			var pipe [2]int
			if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
				return pipes, fmt.Errorf("open a pipe: %w", err)
			}
			p.streams[i] = stream{pipe[0], once{w: to}}
			ends[1+i] = uintptr(pipe[1])
			pipes = append(pipes, pipe[1])
		}
	}
	return pipes, nil
}

func (p *polled) group() group { return group{id: p.id} }
func (p *polled) expire()      { p.expired.Store(true) }

func (p *polled) isOpen() bool { return p.streams[0].fd >= 0 || p.streams[1].fd >= 0 }

func (p *polled) drainUntilEnd() {
	for ended := false; !ended; {
		_, ended = p.poll(-1, p.pidfd)
	}
}

func (p *polled) drainRest() {
	for !p.expired.Load() && p.isOpen() {
		p.poll(drainStep, -1)
	}
}

// poll waits until there is output, delivers it, and returns how much that was, and whether pidfd is ready. It waits at
// most timeout milliseconds; -1: as long as it takes.
func (p *polled) poll(timeout, pidfd int) (delivered int, ended bool) {
	fds := [3]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for i := range p.streams {
		fds[1+i] = unix.PollFd{Fd: int32(p.streams[i].fd), Events: unix.POLLIN}
	}
	if n, err := unix.Poll(fds[:], timeout); n <= 0 {
		return 0, err != nil && err != unix.EINTR && err != unix.EAGAIN && err != unix.ENOMEM
	}
	for i := range p.streams {
		if fds[1+i].Revents != 0 {
			delivered += p.streams[i].deliver()
		}
	}
	return delivered, fds[0].Revents != 0
}

// deliver reads once from a pipe that has something, and returns how much that was.
func (s *stream) deliver() int {
	buf := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buf)
	n, err := unix.Read(s.fd, buf[:])
	if err == unix.EINTR || err == unix.EAGAIN {
		return 0
	}
	if n <= 0 {
		s.close()
		return 0
	}
	s.write(buf[:n])
	return n
}

func (s *stream) close() {
	if s.fd >= 0 {
		_ = unix.Close(s.fd)
		s.fd = -1
	}
}

func (p *polled) close() {
	for i := range p.streams {
		p.streams[i].close()
	}
	if p.pidfd >= 0 {
		_ = unix.Close(p.pidfd)
	}
}

func (p *polled) reap() (end Exit, written, err error) {
	// What the pipes hold, without waiting for more. That ends though somebody still writes.
	for left := 2 * pipeCapacity; left > 0 && p.isOpen(); {
		delivered, _ := p.poll(0, -1)
		if delivered == 0 {
			break
		}
		left -= delivered
	}
	written = cmp.Or(p.streams[0].err, p.streams[1].err)
	p.close()
	var status syscall.WaitStatus
	for {
		if _, err = syscall.Wait4(p.id, &status, 0, nil); err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		return Exit{Code: -1}, written, err
	}
	return exitOf(status), written, nil
}

// awaitEnd waits until the process has ended and leaves the rest to cmd.Wait: until then its id, which is that
// of its group, is given to nobody else and can be signalled without harm.
func awaitEnd(cmd *exec.Cmd) {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}
