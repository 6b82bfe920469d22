package limit

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/flock"
)

func open(t *testing.T, home string, slots int) *SharedPool {
	t.Helper()
	p, err := OpenSharedPool(t.Context(), home, "test", slots)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func TestNoMoreSlotsAreHeldThanThePoolHas(t *testing.T) {
	home := t.TempDir()
	const slots, rounds = 3, 40
	var holding, most atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		p := open(t, home, slots)
		for range 2 { // two waits at once, as of an item and of one that goes on
			wg.Go(func() {
				for range rounds / 2 {
					s, err := p.Acquire(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					now := holding.Add(1)
					for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
					}
					holding.Add(-1)
					if err := s.Release(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	if most.Load() > slots {
		t.Errorf("%d slots were held at once, of %d", most.Load(), slots)
	}
	left, err := filepath.Glob(filepath.Join(home, "pools/test/waiting/*"))
	if len(left) > 0 || err != nil {
		t.Errorf("tickets are left: %v %v", left, err)
	}
}

func TestTheOldestTicketGetsTheSlotThatIsReleased(t *testing.T) {
	home := t.TempDir()
	greedy, other := open(t, home, 1), open(t, home, 1)
	held, err := greedy.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 2)
	wait := func(p *SharedPool, name string) {
		s, err := p.Acquire(t.Context())
		if err != nil {
			t.Error(err)
		}
		got <- name
		_ = s.Release()
	}
	tickets := func(n int) {
		for {
			if names, err := greedy.tickets(); len(names) == n || err != nil {
				return
			}
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { wait(other, "other") })
	tickets(1)
	wg.Go(func() { wait(greedy, "greedy") })
	tickets(2)
	_ = held.Release()
	wg.Wait()
	if first := <-got; first != "other" {
		t.Errorf("%s came first, though it asked last", first)
	}
}

// After the clock was set back, those who come later must not all be before those who wait.
func TestAClockThatIsSetBackTakesNobodysTurn(t *testing.T) {
	p := open(t, t.TempDir(), 1)
	waits := p.ticketOf(time.Now().Add(time.Hour))
	if err := waits.lock(); err != nil {
		t.Fatal(err)
	}
	if first, err := waits.first(); !first || err != nil {
		t.Errorf("the only ticket: %t, %v", first, err)
	}
	later, err := p.newTicket()
	if err != nil {
		t.Fatal(err)
	}
	if first, err := later.first(); first || err != nil {
		t.Errorf("who comes later is before who waits: %v", err)
	}
	if err := errors.Join(waits.drop(), later.drop()); err != nil {
		t.Error(err)
	}
	if left, err := p.tickets(); len(left) > 0 || err != nil {
		t.Errorf("tickets are left: %v, %v", left, err)
	}
}

func TestAPoolInUseHasOneSize(t *testing.T) {
	home := t.TempDir()
	p := open(t, home, 2)
	_, err := OpenSharedPool(t.Context(), home, "test", 3)
	if size, ok := errors.AsType[*SharedPoolSizeError](err); !ok || size.Slots != 2 || size.Wanted != 3 {
		t.Errorf("got %v", err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, home, 3)
}

func TestATicketOfTheDeadIsRemoved(t *testing.T) {
	home := t.TempDir()
	p := open(t, home, 1)
	dead := filepath.Join(home, "pools/test/waiting/00000000000000000001-1-1")
	if err := os.WriteFile(dead, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := p.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Release()
	if _, err := os.Stat(dead); err == nil {
		t.Error("the ticket is still there")
	}
	live := flock.New(dead)
	if ok, err := live.TryLock(); !ok {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if s, err := p.Acquire(ctx); err == nil {
		t.Error("a ticket that somebody holds did not come first")
		_ = s.Release()
	}
	_ = live.Unlock()
}

func TestPoolsAreNamedWithTheirSlots(t *testing.T) {
	for text, ok := range map[string]bool{"gpu:4": true, "a-b_C9:1000": true, "gpu": false, "gpu:0": false, ":3": false, "../x:3": false, "a/b:3": false, "gpu:1001": false, "gpu:x": false, "..:3": false} {
		if name, slots, err := ParseSharedPool(text); (err == nil) != ok {
			t.Errorf("%s: got %s, %d, %v", text, name, slots, err)
		}
	}
}
