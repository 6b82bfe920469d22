package process

import "os/exec"

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
	cmd *exec.Cmd
	out output
	set group
}

var _ child = (*piped)(nil)

func startPiped(c Command) (child, error) {
	p := &piped{cmd: c.command()}
	isolate(p.cmd)
	if err := p.out.connect(p.cmd, c); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		p.out.abandon()
		return nil, startError(c, err)
	}
	p.set = adopt(p.cmd.Process)
	p.out.begin()
	return p, nil
}

func (p *piped) group() group   { return p.set }
func (p *piped) drainUntilEnd() { awaitEnd(p.cmd) }
func (p *piped) drainRest()     { _ = p.out.readers.Wait() }
func (p *piped) expire()        { p.out.expire() }

func (p *piped) reap() (end Exit, written, err error) {
	waited := p.cmd.Wait()
	written = p.out.finish()
	if p.cmd.ProcessState == nil {
		return Exit{Code: -1}, written, waited
	}
	return ending(p.cmd.ProcessState), written, nil
}
