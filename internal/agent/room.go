package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"prodigy/internal/process"
)

// ErrDir is in the chain when the directory that the commands of a job run in cannot be used.
var ErrDir = errors.New("the working directory of the job cannot be used")

// dirError returns an error when the working directory of the attempt cannot be used. A directory that a step names is its own affair.
func (r *run) dirError() error {
	if err := process.CheckDir(r.a.Dir); err != nil {
		return fmt.Errorf("%w: %w", ErrDir, err)
	}
	return nil
}

// own returns err when it is no fault of a step that works with files: there is a shortage, or no directory to work in; else nil.
func (r *run) own(err error) error {
	if err == nil || process.Short(err) || errors.Is(err, ErrDir) {
		return err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return r.dirError()
	}
	return nil
}

const (
	shortageWait  = 100 * time.Millisecond // before another try after a shortage
	loneTries     = 3                      // how often a command is tried again that ran short with no other beside it
	loneTriesWait = 250 * time.Millisecond
)

// room bounds how many commands run at once. When files, processes or memory run short it makes the bound smaller and tries again:
// what could not be started has done nothing yet.
type room struct {
	mu      sync.Mutex
	most    int // 0: Config.MaxCommands
	running int
	lowered int           // how often most was made smaller
	freed   chan struct{} // closed when one has ended; nil: nobody waits for that
}

// inRoom calls f, which starts a command or opens files, when there is room for one more. It calls f again when that met a
// shortage, and returns the shortage when f meets it with nothing else running.
func (x *Executor) inRoom(ctx context.Context, f func() error) error {
	for lone := 0; ; {
		entered, err := x.enter(ctx)
		if err != nil {
			return err
		}
		err = f()
		x.leave()
		if !process.Short(err) || ctx.Err() != nil {
			return err
		}
		wait := shortageWait
		if entered.most == 1 {
			if lone++; lone > loneTries {
				return err
			}
			wait = loneTriesWait
		}
		x.lower(entered, err)
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// entry is the bound under which a command began.
type entry struct{ most, lowered int }

func (x *Executor) enter(ctx context.Context) (entry, error) {
	m := &x.room
	for {
		m.mu.Lock()
		if m.most == 0 {
			m.most = x.MaxCommands
		}
		if m.most == 0 || m.running < m.most {
			m.running++
			e := entry{m.most, m.lowered}
			m.mu.Unlock()
			return e, nil
		}
		if m.freed == nil {
			m.freed = make(chan struct{})
		}
		freed := m.freed
		m.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return entry{}, context.Cause(ctx)
		}
	}
}

func (x *Executor) leave() {
	m := &x.room
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running--
	if m.freed != nil {
		close(m.freed)
		m.freed = nil
	}
}

// lower halves the bound, once for all that began under the same one.
func (x *Executor) lower(e entry, why error) {
	m := &x.room
	m.mu.Lock()
	if e.lowered != m.lowered || e.most == 1 {
		m.mu.Unlock()
		return
	}
	together := m.running + 1
	if m.most > 0 {
		together = min(together, m.most)
	}
	m.most = max(1, together/2)
	m.lowered++
	most := m.most
	m.mu.Unlock()
	x.host.Lowered(most, why)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
