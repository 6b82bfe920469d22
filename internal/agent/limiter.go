package agent

import (
	"context"
	"sync"
	"time"

	"prodigy/internal/duration"
	"prodigy/internal/process"
)

const (
	shortageWait  = 100 * time.Millisecond // before another try after a shortage
	loneTries     = 3                      // how often a command that runs short with nothing beside it is tried again
	loneTriesWait = 250 * time.Millisecond
)

// limiter limits how many commands run at once. When files, processes or memory run short it lowers the limit
// and tries again: what could not be started has done nothing yet.
type limiter struct {
	onLowered func(most int, why error)

	mu      sync.Mutex
	most    int // 0: no limit
	running int
	lowered int           // how often most was made smaller
	freed   chan struct{} // closed when one has ended; nil if nobody waits for that
}

// do calls f, which starts a command or opens files, when one more may run. It calls f again when that met a
// shortage, and returns the shortage when f meets it with nothing else running.
func (l *limiter) do(ctx context.Context, f func() error) error {
	for lone := 0; ; {
		most, lowered, err := l.enter(ctx)
		if err != nil {
			return err
		}
		err = f()
		l.leave()
		if !process.Short(err) || ctx.Err() != nil {
			return err
		}
		wait := shortageWait
		if most == 1 {
			if lone++; lone > loneTries {
				return err
			}
			wait = loneTriesWait
		} else {
			l.lower(lowered, err)
		}
		if err := duration.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// enter waits until one more may run. It returns the limit that it found then, and how often that had been lowered.
func (l *limiter) enter(ctx context.Context) (most, lowered int, err error) {
	for {
		l.mu.Lock()
		if l.most == 0 || l.running < l.most {
			l.running++
			most, lowered = l.most, l.lowered
			l.mu.Unlock()
			return most, lowered, nil
		}
		if l.freed == nil {
			l.freed = make(chan struct{})
		}
		freed := l.freed
		l.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return 0, 0, context.Cause(ctx)
		}
	}
}

func (l *limiter) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
	if l.freed != nil {
		close(l.freed)
		l.freed = nil
	}
}

// lower halves the limit, once for all that began before it was lowered again.
func (l *limiter) lower(seen int, why error) {
	l.mu.Lock()
	first := seen == l.lowered
	if first {
		together := l.running + 1
		if l.most > 0 {
			together = min(together, l.most)
		}
		l.most = max(1, together/2)
		l.lowered++
	}
	most := l.most
	l.mu.Unlock()
	if first {
		l.onLowered(most, why)
	}
}
