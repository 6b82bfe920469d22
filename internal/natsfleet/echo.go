package natsfleet

import (
	"io"
	"sync"
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
	mu       sync.Mutex
	commands int
	pieces   []fleet.Echo
	size     int
	waits    bool // it will be sent in a moment
	closed   bool
}

// Command implements agent.Echo.
func (e workerEcho) Command(a *agent.Attempt, step string, try int) (stdout, stderr io.Writer) {
	k := e.held(a)
	if k == nil || a.ItemID == "" {
		return io.Discard, io.Discard
	}
	k.echo.mu.Lock()
	defer k.echo.mu.Unlock()
	k.echo.commands++
	one := fleet.Echo{Command: k.echo.commands, Step: step, Try: try}
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
	s.k.echo.mu.Lock()
	defer s.k.echo.mu.Unlock()
	one := s.piece
	one.Data = append([]byte(nil), p...)
	s.w.addEcho(s.k, one)
	return len(p), nil
}

// addEcho has a piece sent soon. It waits while too much of the job is on the way. It is called with the lock of the
// buffer held.
func (w *worker) addEcho(k *heldAttempt, piece fleet.Echo) {
	b := &k.echo
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
		w.sendEcho(k)
		return
	}
	if !b.waits {
		b.waits = true
		time.AfterFunc(echoDelay, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			w.sendEcho(k)
		})
	}
}

// sendEcho sends what there is. It is called with the lock of the buffer held.
func (w *worker) sendEcho(k *heldAttempt) {
	b := &k.echo
	b.waits = false
	if len(b.pieces) == 0 || b.closed {
		return
	}
	pieces := b.pieces
	b.pieces, b.size = nil, 0
	w.report(k, fleet.Report{Kind: fleet.Echoed, Echo: pieces})
}

// endEcho sends what is left. Nothing follows.
func (w *worker) endEcho(k *heldAttempt) {
	k.echo.mu.Lock()
	defer k.echo.mu.Unlock()
	w.sendEcho(k)
	k.echo.closed = true
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
			to[0], to[1] = c.c.Echo.Command(f.attempt(), piece.Step, piece.Try)
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
