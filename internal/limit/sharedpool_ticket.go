package limit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
)

// ticket is a place in the line of those who wait for a slot: a file whose name begins with the time.
type ticket struct {
	pool *SharedPool
	name string
	file *flock.Flock
}

// settled is how long after it was made a ticket that is not locked may still be one that is just being locked.
const settled = time.Second

var serial atomic.Int64

// newTicket returns a ticket behind all others.
func (p *SharedPool) newTicket() (*ticket, error) {
	t := &ticket{pool: p, name: fmt.Sprintf("%020d-%d-%d", time.Now().UnixNano(), os.Getpid(), serial.Add(1))}
	t.file = flock.New(t.path())
	locked, err := t.file.TryLock()
	if err == nil && !locked {
		err = errors.New("a new ticket is locked")
	}
	if err != nil {
		return nil, fmt.Errorf("pool %s: %w", p.Name, err)
	}
	return t, nil
}

func (t *ticket) path() string { return filepath.Join(t.pool.file("waiting"), t.name) }

// drop gives the ticket up.
func (t *ticket) drop() error {
	return errors.Join(removed(t.path()), t.file.Unlock())
}

// removed removes a file, if it is still there.
func removed(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// tickets returns the names of the tickets, the oldest first.
func (p *SharedPool) tickets() ([]string, error) {
	entries, err := os.ReadDir(p.file("waiting"))
	if err != nil {
		return nil, fmt.Errorf("pool %s: %w", p.Name, err)
	}
	names := make([]string, len(entries))
	for i, e := range entries { // ReadDir sorts by name
		names[i] = e.Name()
	}
	return names, nil
}

// first reports whether the ticket is the oldest. Those of processes that have died are removed.
func (t *ticket) first() (bool, error) {
	names, err := t.pool.tickets()
	if err != nil {
		return false, err
	}
	for _, name := range names {
		if name == t.name {
			break
		}
		if alive, err := t.pool.alive(name); alive || err != nil {
			return false, err
		}
	}
	return true, nil
}

// alive reports whether somebody waits with a ticket, and removes it if not.
func (p *SharedPool) alive(name string) (bool, error) {
	path := filepath.Join(p.file("waiting"), name)
	digits, _, _ := strings.Cut(name, "-")
	if made, err := strconv.ParseInt(digits, 10, 64); err == nil && time.Since(time.Unix(0, made)) < settled {
		_, err := os.Stat(path)
		return err == nil, nil
	}
	if _, err := os.Stat(path); err != nil {
		return false, nil // its owner has a slot now
	}
	file := flock.New(path, flock.SetFlag(os.O_RDWR))
	free, err := file.TryLock()
	switch {
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("pool %s: %w", p.Name, err)
	case !free:
		return true, nil
	}
	return false, errors.Join(removed(path), file.Unlock())
}
