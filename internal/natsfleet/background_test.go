package natsfleet

import (
	"sync"
	"sync/atomic"
	"testing"
)

// A worker that speaks while the coordinator ends made it panic: a WaitGroup must not be added to while it is waited for with nothing in it.
func TestNothingBeginsInTheBackgroundOnceItsEndIsWaitedFor(t *testing.T) {
	for range 2000 {
		var b background
		var running atomic.Int32
		var speakers sync.WaitGroup
		for range 3 {
			speakers.Go(func() {
				for range 20 {
					b.Go(func() { running.Add(1); running.Add(-1) })
				}
			})
		}
		b.Wait()
		if n := running.Load(); n != 0 {
			t.Fatalf("%d still run", n)
		}
		speakers.Wait()
		b.Go(func() { t.Error("it began after the end") })
		b.Wait()
	}
}
