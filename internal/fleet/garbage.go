package fleet

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// BoundGarbage has a large heap collected when it has grown by half, and a small one later, so that it is not
// collected for every few attempts. It is for coordinators, which run for days beside other work and may hold tens of
// thousands of attempts. GOGC decides instead where it is set.
func BoundGarbage() {
	if os.Getenv("GOGC") != "" {
		return
	}
	percent := gcPercent(0)
	debug.SetGCPercent(percent)
	type cycle [32]byte // is garbage in each collection; smaller objects would be kept by their neighbours
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	var collected func(*cycle)
	collected = func(*cycle) {
		metrics.Read(live)
		if next := gcPercent(live[0].Value.Uint64()); next != percent {
			percent = next
			debug.SetGCPercent(percent)
		}
		runtime.SetFinalizer(new(cycle), collected)
	}
	runtime.SetFinalizer(new(cycle), collected)
}

// gcPercent returns by how many percent a heap may grow before it is collected: by 3 MiB, but no less than by half
// and no more than to twice its size. It goes in steps of 25, since each change stops the program for a moment.
func gcPercent(live uint64) int {
	const room = 3 << 20
	return int(min(max(100*room/max(live, 1)/25*25, 50), 100))
}
