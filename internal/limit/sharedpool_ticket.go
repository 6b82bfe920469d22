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
	made time.Time
	name string
	file *flock.Flock
}

// settled is how long after it was made a ticket that is not locked may still be one that is just being locked.
const settled = time.Second

var serial atomic.Int64

// newTicket returns a ticket behind all others.
func (p *SharedPool) newTicket() (*ticket, error) {
	t := p.ticketOf(time.Now())
	return t, t.lock()
}

// ticketOf returns a ticket as one that is made at a time. It is not locked yet.
func (p *SharedPool) ticketOf(made time.Time) *ticket {
	made = made.Round(0) // the clock on the wall, by which all processes go
	return &ticket{pool: p, made: made, name: fmt.Sprintf("%020d-%d-%d", made.UnixNano(), os.Getpid(), serial.Add(1))}
}

func (t *ticket) lock() error {
	t.file = flock.New(t.path())
	locked, err := t.file.TryLock()
	if err == nil && !locked {
		err = errors.New("a new ticket is locked")
	}
	if err != nil {
		return fmt.Errorf("pool %s: %w", t.pool.Name, err)
	}
	return nil
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
	if t.made.Sub(time.Now().Round(0)) > settled { // the clock was set back: whoever comes now would be before it
		renewed, err := t.pool.newTicket()
		if err != nil {
			return false, err
		}
		err = t.drop()
		if *t = *renewed; err != nil {
			return false, err
		}
	}
	names, err := t.pool.tickets()
	if err != nil {
		return false, err
	}
	for _, name := range names {
		if name == t.name {
			return true, nil
		}
		if alive, err := t.pool.alive(name); alive || err != nil {
			return false, err
		}
	}
	// It was removed, because this process was stopped for long between making and locking it.
	return false, errors.Join(t.file.Unlock(), t.lock())
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
