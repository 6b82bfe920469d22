package natsfleet

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/fleet"
)

// workerEcho sends all that commands print to the coordinator, which shows it. What is kept in the job is less, and
// comes beside it.
type workerEcho struct{ *workerHost }

const (
	echoSize  = 32 << 10               // how many bytes are sent at once
	echoDelay = 100 * time.Millisecond // how long fewer wait for more
)

// echoBuffer is what an attempt has printed and what was not sent yet.
type echoBuffer struct {
	commands atomic.Int64

	mu     sync.Mutex
	pieces []fleet.Echo
	size   int
	waits  bool // it will be sent in a moment
	closed bool
}

// Command implements agent.Echo.
func (e workerEcho) Command(a *agent.Attempt, step string, try int) (stdout, stderr io.Writer) {
	k := e.held(a)
	if k == nil || a.ItemID == "" {
		return io.Discard, io.Discard
	}
	one := fleet.Echo{Command: int(k.echo.commands.Add(1)), Step: step, Try: try}
	e.w.addEcho(k, one) // it drops what a try before has printed, also if it prints nothing
	two := one
	two.Stream = 1
	return &echoStream{e.w, k, one}, &echoStream{e.w, k, two}
}

// echoStream takes what a command prints to one of its streams.
type echoStream struct {
	w     *worker
	k     *heldAttempt
	piece fleet.Echo
}

func (s *echoStream) Write(p []byte) (int, error) {
	one := s.piece
	one.Data = append([]byte(nil), p...)
	s.w.addEcho(s.k, one)
	return len(p), nil
}

// addEcho has a piece sent soon. It waits while too much of the job is on the way.
func (w *worker) addEcho(k *heldAttempt, piece fleet.Echo) {
	b := &k.echo
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	if last := len(b.pieces) - 1; last >= 0 && b.pieces[last].Command == piece.Command &&
		b.pieces[last].Stream == piece.Stream {
		b.pieces[last].Data = append(b.pieces[last].Data, piece.Data...)
	} else {
		b.pieces = append(b.pieces, piece)
	}
	if b.size += len(piece.Data); b.size >= echoSize {
		w.report(k, b.take())
	} else if !b.waits {
		b.waits = true
		time.AfterFunc(echoDelay, func() { w.flushEcho(k, false) })
	}
}

// take returns the report of what there is.
func (b *echoBuffer) take() fleet.Report {
	r := fleet.Report{Kind: fleet.Echoed, Echo: b.pieces}
	b.pieces, b.size = nil, 0
	return r
}

// flushEcho sends what there is. Nothing follows when the attempt has ended.
func (w *worker) flushEcho(k *heldAttempt, ended bool) {
	b := &k.echo
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waits = false
	if len(b.pieces) > 0 && !b.closed {
		w.report(k, b.take())
	}
	b.closed = b.closed || ended
}

// show shows what an attempt has printed on its worker.
func (c *coordinator) show(f *flight, pieces []fleet.Echo) {
	if c.c.Echo == nil {
		return
	}
	c.slow.showing.Lock()
	defer c.slow.showing.Unlock()
	for _, piece := range pieces {
		to, known := f.shown[piece.Command]
		if !known {
			to[0], to[1] = c.c.Echo.Command(f.Attempt, piece.Step, piece.Try)
			if f.shown == nil {
				f.shown = map[int][2]io.Writer{}
			}
			f.shown[piece.Command] = to
		}
		if len(piece.Data) > 0 {
			_, _ = to[min(max(piece.Stream, 0), 1)].Write(piece.Data) // its errors are its own
		}
	}
}
