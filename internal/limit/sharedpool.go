package limit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"prodigy/internal/check"
)

const (
	// MaxSlots bounds the slots of a pool: each is looked at while none is free.
	MaxSlots = 1000

	maxName = 64
)

// SharedPool lets the jobs of one machine share slots, without a daemon: a slot is a file that is locked while it is
// held, and the kernel unlocks the files of a process that dies. One at a time looks for a free slot: who has the
// turn, also a locked file. All others wait for that, so that no job starves which gives its slots back later.
// It is safe for concurrent use.
type SharedPool struct {
	Name  string
	Slots int

	dir   string
	users *flock.Flock  // shared while the pool is used: how many slots it has cannot change
	freed chan struct{} // this process has released a slot
}

// SharedSlot is a slot that is held.
type SharedSlot struct {
	pool *SharedPool
	file *flock.Flock
}

// SharedPoolSizeError says that a pool is used with another number of slots.
type SharedPoolSizeError struct {
	Name          string
	Slots, Wanted int
}

func (e *SharedPoolSizeError) Error() string {
	return fmt.Sprintf("pool %s is in use with %d slots, not %d: all jobs of a pool must use the same number of slots", e.Name, e.Slots, e.Wanted)
}

// ParseSharedPool reads NAME:SLOTS.
func ParseSharedPool(text string) (name string, slots int, err error) {
	name, number, found := strings.Cut(text, ":")
	slots, wrong := strconv.Atoi(number)
	if !found || wrong != nil || slots < 1 || slots > MaxSlots {
		return "", 0, fmt.Errorf("must be NAME:SLOTS, such as gpu:4, with 1 to %d slots", MaxSlots)
	}
	if !validPoolName(name) {
		return "", 0, fmt.Errorf("invalid pool name %q: use letters, digits, underscores and dashes, at most %d",
			name, maxName)
	}
	return name, slots, nil
}

func validPoolName(s string) bool {
	return s != "" && len(s) <= maxName &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// guardPatience is how long another process may take to open or close a pool.
const guardPatience = 10 * time.Second

// OpenSharedPool begins to use the pool of a home. When others use it with another number of slots, that is a
// *SharedPoolSizeError.
func OpenSharedPool(ctx context.Context, home, name string, slots int) (_ *SharedPool, err error) {
	p := &SharedPool{
		Name: name, Slots: slots, dir: filepath.Join(home, "pools", name), freed: make(chan struct{}, 1),
	}
	defer func() {
		if _, other := errors.AsType[*SharedPoolSizeError](err); err != nil && !other {
			err = fmt.Errorf("pool %s: %w", name, err)
		}
	}()
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, guardPatience)
	defer cancel()
	guard := flock.New(p.file("guard"))
	if locked, err := guard.TryLockContext(ctx, 2*time.Millisecond); !locked {
		return nil, err
	}
	defer check.Join(&err, guard.Unlock)
	p.users = flock.New(p.file("users"))
	alone, err := p.users.TryLock()
	if err != nil {
		return nil, err
	}
	if alone {
		if err := os.WriteFile(p.file("slots"), []byte(strconv.Itoa(slots)+"\n"), 0o600); err != nil {
			return nil, errors.Join(err, p.users.Unlock())
		}
		if err := p.users.Unlock(); err != nil { // nobody else gets it: the guard is held
			return nil, err
		}
	} else {
		data, err := os.ReadFile(p.file("slots"))
		if err != nil {
			return nil, err
		}
		if now, err := strconv.Atoi(strings.TrimSpace(string(data))); err != nil || now != slots {
			return nil, &SharedPoolSizeError{Name: name, Slots: now, Wanted: slots}
		}
	}
	shared, err := p.users.TryRLock()
	if err == nil && !shared {
		err = errors.New("its lock cannot be shared")
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (p *SharedPool) file(name string) string { return filepath.Join(p.dir, name) }

// Close ends the use of the pool. Its slots have been released.
func (p *SharedPool) Close() error { return p.users.Unlock() }

const (
	poll      = 5 * time.Millisecond
	pollShare = 50 // looking takes at most this part of the time
)

// Acquire waits for a free slot. It returns context.Cause(ctx) when ctx ends first.
func (p *SharedPool) Acquire(ctx context.Context) (s *SharedSlot, err error) {
	turn := flock.New(p.file("turn"))
	if locked, err := turn.TryLockContext(ctx, poll); !locked {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	defer check.Join(&err, turn.Unlock)
	for {
		began := time.Now()
		if s, err = p.try(); s != nil || err != nil {
			return s, err
		}
		select {
		case <-time.After(max(poll, pollShare*time.Since(began))):
		case <-p.freed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// try takes a slot if one is free, and else returns nil.
func (p *SharedPool) try() (*SharedSlot, error) {
	for n := range p.Slots {
		file := flock.New(p.file("slot-" + strconv.Itoa(n+1)))
		locked, err := file.TryLock()
		if err != nil {
			return nil, fmt.Errorf("pool %s: %w", p.Name, err)
		}
		if locked {
			return &SharedSlot{pool: p, file: file}, nil
		}
	}
	return nil, nil
}

// Release gives the slot back.
func (s *SharedSlot) Release() error {
	err := s.file.Unlock()
	check.Wake(s.pool.freed)
	return err
}
