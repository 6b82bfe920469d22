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

const bufferSize = 16 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// output carries what a command prints from its pipes to the writers of its Command.
type output struct {
	pipes   []pipe
	readers errgroup.Group
}

type pipe struct {
	read, write *os.File
	to          io.Writer
}

// connect gives cmd the files of c, and a pipe for each of its other writers.
func (o *output) connect(cmd *exec.Cmd, c Command) error {
	o.pipes = make([]pipe, 0, 2)
	if c.Stdin != nil {
		cmd.Stdin = c.Stdin
	}
	if c.Stdout != nil {
		w, err := o.open(c.Stdout)
		if err != nil {
			return err
		}
		cmd.Stdout = w
	}
	switch {
	case c.Stderr == nil:
	case c.Stderr == c.Stdout:
		cmd.Stderr = cmd.Stdout
	default:
		w, err := o.open(c.Stderr)
		if err != nil {
			o.abandon()
			return err
		}
		cmd.Stderr = w
	}
	return nil
}

// open returns to when it is a file, else a pipe to it.
func (o *output) open(to io.Writer) (*os.File, error) {
	if file, ok := to.(*os.File); ok {
		return file, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("open a pipe: %w", err)
	}
	o.pipes = append(o.pipes, pipe{read: r, write: w, to: to})
	return w, nil
}

// begin starts the readers, once the command has the other ends.
func (o *output) begin() {
	for _, p := range o.pipes {
		_ = p.write.Close()
		o.readers.Go(func() error { return p.copy() })
	}
}

// abandon closes the pipes of a command that did not start.
func (o *output) abandon() {
	for _, p := range o.pipes {
		_ = p.write.Close()
		_ = p.read.Close()
	}
}

// expire lets the readers deliver what has been written, and end.
func (o *output) expire() {
	for _, p := range o.pipes {
		expire(p.read)
	}
}

// finish ends the readers and closes the pipes.
func (o *output) finish() error {
	o.expire()
	err := o.readers.Wait()
	for _, p := range o.pipes {
		_ = p.read.Close()
	}
	return err
}

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
