package natsfleet

import (
	"io"

	"prodigy/internal/agent"
	"prodigy/internal/fleet"
)

// workerEcho sends all that commands print to the coordinator, which shows it. What is kept in the job is less, and
// comes beside it.
type workerEcho struct{ *workerHost }

// Command implements agent.Echo.
func (e workerEcho) Command(a *agent.Attempt, step string, try int) (stdout, stderr io.Writer) {
	k := e.held(a)
	if k == nil || a.ItemID == "" {
		return io.Discard, io.Discard
	}
	one := fleet.Echo{Step: step, Try: try}
	e.turn(func(*workerState) {
		k.commands++
		one.Command = k.commands
	})
	e.report(k, fleet.Report{Kind: fleet.Echoed, Echo: &one}) // it drops what a try before has printed
	two := one
	two.Stream = 1
	return &echoStream{e.worker, k, one}, &echoStream{e.worker, k, two}
}

// echoStream takes what a command prints to one of its streams.
type echoStream struct {
	w     *worker
	k     *heldAttempt
	piece fleet.Echo
}

// Write implements io.Writer. It waits while too much of the job was reported that nobody has taken.
func (s *echoStream) Write(p []byte) (int, error) {
	one := s.piece
	one.Data = p
	s.w.report(s.k, fleet.Report{Kind: fleet.Echoed, Echo: &one})
	return len(p), nil
}

// show shows what an attempt has printed on its worker.
func (c *coordinator) show(f *flight, e *fleet.Echo) {
	if c.c.Echo == nil || e == nil {
		return
	}
	c.slow.showing.Lock()
	defer c.slow.showing.Unlock()
	to, known := f.shown[e.Command]
	if !known {
		to[0], to[1] = c.c.Echo.Command(f.Attempt, e.Step, e.Try)
		if f.shown == nil {
			f.shown = map[int][2]io.Writer{}
		}
		f.shown[e.Command] = to
	}
	if len(e.Data) > 0 {
		_, _ = to[min(max(e.Stream, 0), 1)].Write(e.Data) // its errors are its own
	}
}
