package job

import (
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/retry"
)

func TestAttemptsAreKeptAsTheyWereSet(t *testing.T) {
	var full Running
	fill(reflect.ValueOf(&full).Elem(), "full")
	began := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	list := map[int]Running{
		1: {},
		2: {ID: "item_2", Number: 1, Began: began, Token: 9, Fleet: true, Base: "1b2c"},
		3: {ID: "item_3", Number: math.MaxUint16 + 1, Token: 10},
		4: {ID: "item_4", Number: -1, Token: 11},
		7: {ID: "item_7", Number: 2, Retry: retry.State{Attempts: 1, ExpiresAt: began}},
		8: full,
	}
	l := Attempts{}
	for index, f := range list {
		l.Set(index, f)
	}
	got := maps.Collect(l.All())
	if diff := cmp.Diff(list, got, exactly); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if f, runs := l.Get(9); runs || f != (Running{}) || l.At(9) != f {
		t.Errorf("got %+v, %v for an item without an attempt", f, runs)
	}
	plain, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	var again Attempts
	if err := json.Unmarshal(plain, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(l, again, exactly); diff != "" {
		t.Errorf("read from the JSON of a map (-want +got):\n%s", diff)
	}
	if data, err := json.Marshal(l); err != nil || strings.TrimSpace(string(data)) != string(plain) {
		t.Errorf("got %s, %v, want %s", data, err, plain)
	}
}

// With a fleet tens of thousands may have started, and the state is held twice.
func TestAnAttemptThatRunsIsSmall(t *testing.T) {
	const n, most = 5000, 140
	before := liveHeap()
	l := Attempts{}
	for i := range n {
		l.Set(i, Running{ID: "item", Number: 1, Began: time.Now(), Token: int64(i), Fleet: true, Base: "1b2c"})
	}
	if got := (liveHeap() - before) / n; got > most {
		t.Errorf("an attempt takes %d bytes, want %d at most", got, most)
	}
	runtime.KeepAlive(l)
}

func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // it is not so large
}
