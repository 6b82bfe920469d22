package fleet

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestGCPercent(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{{0, 100}, {1 << 20, 100}, {3 << 20, 100}, {4 << 20, 75}, {5 << 20, 50}, {1 << 30, 50}} {
		if got := gcPercent(c.live); got != c.want {
			t.Errorf("a heap of %d bytes may grow by %d percent, want %d", c.live, got, c.want)
		}
	}
}

// The finalizer of each collection has the next one noticed too.
func TestALargeHeapIsCollectedSooner(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	t.Setenv("GOGC", "")
	BoundGarbage()
	runtime.GC()
	get := func() uint64 {
		percent := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(percent)
		return percent[0].Value.Uint64()
	}
	large := make([]*[1 << 10]byte, 64<<10)
	for i := range large {
		large[i] = new([1 << 10]byte)
	}
	for deadline := time.Now().Add(time.Minute); get() != 50; runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatalf("a large heap may grow by %d percent, want 50", get())
		}
	}
	runtime.KeepAlive(large)
}
