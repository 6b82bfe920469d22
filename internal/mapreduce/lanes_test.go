package mapreduce

import (
	"testing"
	"time"
)

// What waits for its turn goes on at once, or soon, when the clock was set back, and not when it has caught up.
func TestTurnsGoOnAfterTheClockWasSetBack(t *testing.T) {
	now := time.Date(2026, 11, 23, 19, 0, 0, 0, time.UTC)
	limit := func(_ string, now time.Time) time.Time { return now.Add(10 * time.Millisecond) }
	var l lanes[string, int]
	for i, key := range []string{"a", "b", "c"} {
		l.add(key, i)
	}
	if _, _, ok := l.next(now, limit); ok {
		t.Fatal("one goes on before its time")
	}
	back := now.Add(-7 * time.Hour)
	if _, _, ok := l.next(back, limit); ok {
		t.Fatal("one goes on before its time after the clock was set back")
	}
	if at := l.due(); at.Sub(back) != 10*time.Millisecond {
		t.Errorf("after the clock was set back it is to be asked again after %s, want 10ms", at.Sub(back))
	}
	if _, v, ok := l.next(back.Add(time.Second), func(string, time.Time) time.Time { return time.Time{} }); !ok || v != 0 {
		t.Errorf("got %d %v, want what came first", v, ok)
	}
}
