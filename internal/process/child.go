package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"

	"golang.org/x/sync/errgroup"
)

// child is a command that has been started. All but expire is called by one goroutine, in this order.
type child interface {
	group() group
	// drainUntilEnd delivers output and returns when the process has ended. Until reap its id, which is that of
	// its group, is given to nobody else and can be signalled without harm, where the system allows that.
	drainUntilEnd()
	// drainRest delivers output until nobody holds the output any more, or expire is called.
	drainRest()
	// expire is called by any goroutine, at any time.
	expire()
	// reap delivers the rest of the output. It returns how the process ended, and what went wrong when its
	// output was written.
	reap() (end Exit, written, err error)
}

// piped is a child whose output is read by a goroutine a pipe.
type piped struct {
	cmd     *exec.Cmd
	set     group
	pipes   []pipe
	readers errgroup.Group
}

// pipe carries what a command prints to a writer of its Command.
type pipe struct {
	read, write *os.File
	to          io.Writer
}

var _ child = (*piped)(nil)

func startPiped(c Command) (child, error) {
	p := &piped{cmd: c.command()}
	isolate(p.cmd)
	err := p.connect(c)
	if err == nil {
		if err = p.cmd.Start(); err != nil {
			err = startError(c, err)
		}
	}
	for _, one := range p.pipes { // the command has these ends
		_ = one.write.Close()
	}
	if err != nil {
		p.close()
		return nil, err
	}
	p.set = adopt(p.cmd.Process)
	for _, one := range p.pipes {
		p.readers.Go(one.copy)
	}
	return p, nil
}

// connect gives the command the files of c, and a pipe for each of its other writers.
func (p *piped) connect(c Command) error {
	if c.Stdin != nil {
		p.cmd.Stdin = c.Stdin
	}
	into := [...]*io.Writer{&p.cmd.Stdout, &p.cmd.Stderr}
	for i, to := range [...]io.Writer{c.Stdout, c.Stderr} {
		_, isFile := to.(*os.File)
		switch {
		case to == nil:
		case isFile:
			*into[i] = to
		case i == 1 && to == c.Stdout:
			p.cmd.Stderr = p.cmd.Stdout
		default:
			r, w, err := os.Pipe()
			if err != nil {
				return fmt.Errorf("open a pipe: %w", err)
			}
			p.pipes = append(p.pipes, pipe{read: r, write: w, to: to})
			*into[i] = w
		}
	}
	return nil
}

func (p *piped) close() {
	for _, one := range p.pipes {
		_ = one.read.Close()
	}
}

func (p *piped) group() group   { return p.set }
func (p *piped) drainUntilEnd() { awaitEnd(p.cmd) }
func (p *piped) drainRest()     { _ = p.readers.Wait() }

// expire lets the readers deliver what has been written, and end.
func (p *piped) expire() {
	for _, one := range p.pipes {
		expire(one.read)
	}
}

func (p *piped) reap() (end Exit, written, err error) {
	waited := p.cmd.Wait()
	p.expire()
	written = p.readers.Wait()
	p.close()
	if p.cmd.ProcessState == nil {
		return Exit{Code: -1}, written, waited
	}
	return ending(p.cmd.ProcessState), written, nil
}

const bufferSize = 16 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// copy delivers until the other end is closed or the read end expires. After a failed write it goes on reading, so that
// the command is not blocked by it.
func (p pipe) copy() error {
	buf := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buf)
	to := &once{w: p.to}
	for {
		n, err := p.read.Read(buf[:])
		to.write(buf[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			rest(p.read, buf[:], to.write)
			return to.err
		}
		if err != nil {
			return to.err
		}
	}
}

// once writes until the first error.
type once struct {
	w   io.Writer
	err error
}

func (o *once) write(b []byte) {
	if o.err != nil || len(b) == 0 {
		return
	}
	if _, err := o.w.Write(b); err != nil {
		o.err = fmt.Errorf("keep the output: %w", err)
	}
}
