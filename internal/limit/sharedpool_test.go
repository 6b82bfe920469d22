package limit

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
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
}

// A job that gives a slot back and asks again at once must leave one to who has waited.
func TestAGreedyJobLeavesTheTurnToOthers(t *testing.T) {
	home := t.TempDir()
	greedy, other := open(t, home, 1), open(t, home, 1)
	var done atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for !done.Load() {
				s, err := greedy.Acquire(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				_ = s.Release()
			}
		})
	}
	for range 3 {
		s, err := other.Acquire(t.Context())
		if err != nil {
			t.Error(err)
			break
		}
		_ = s.Release()
	}
	done.Store(true)
	wg.Wait()
}

func TestAWaitForASlotCanBeStopped(t *testing.T) {
	home := t.TempDir()
	p := open(t, home, 1)
	held, err := p.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	var wg sync.WaitGroup
	for range 2 { // one has the turn, and one waits for it
		wg.Go(func() {
			if _, err := p.Acquire(ctx); !errors.Is(err, stopped) {
				t.Errorf("got %v", err)
			}
		})
	}
	stop(stopped)
	wg.Wait()
	_ = held.Release()
	again, err := open(t, home, 1).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Release()
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

func TestPoolsAreNamedWithTheirSlots(t *testing.T) {
	for text, ok := range map[string]bool{"gpu:4": true, "a-b_C9:1000": true, "gpu": false, "gpu:0": false, ":3": false, "../x:3": false, "a/b:3": false, "gpu:1001": false, "gpu:x": false, "..:3": false} {
		if name, slots, err := ParseSharedPool(text); (err == nil) != ok {
			t.Errorf("%s: got %s, %d, %v", text, name, slots, err)
		}
	}
}
