package retry

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestRetriesAreAPartOfTheFirstAttempts holds a throttle against the list of all starts: retries start only when there is room, always when there is
// by the exact window, and never later than a window.
func TestRetriesAreAPartOfTheFirstAttempts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Ratio{Ratio: rapid.SampledFrom([]float64{0.1, 0.2, 0.5, 2}).Draw(t, "ratio"), Window: time.Minute, Min: rapid.IntRange(1, 4).Draw(t, "min")}
		b := NewThrottle(&r)
		type start struct {
			at    time.Time
			retry bool
		}
		var all []start
		now := time.Unix(1_000_000, 0)
		within := func(d time.Duration) (first, retries int) {
			for _, s := range all {
				switch {
				case now.Sub(s.at) >= d:
				case s.retry:
					retries++
				default:
					first++
				}
			}
			return first, retries
		}
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 8).Draw(t, "seconds")) * time.Second)
			if rapid.IntRange(0, 20).Draw(t, "checkpoint") == 0 {
				data, err := json.Marshal(b)
				if err != nil {
					t.Fatal(err)
				}
				b = NewThrottle(&r)
				if err := json.Unmarshal(data, b); err != nil {
					t.Fatal(err)
				}
			}
			again := rapid.Bool().Draw(t, "retry")
			if again {
				at := b.Next(now)
				if (b.Free(now) > 0) != !at.After(now) {
					t.Fatalf("%d are free and the next may start at %v", b.Free(now), at)
				}
				if at.Sub(now) > r.Window {
					t.Fatalf("a retry waits %s, longer than a window", at.Sub(now))
				}
				if at.After(now) {
					continue
				}
				first, _ := within(time.Minute)
				if _, retries := within(59 * time.Second); retries >= max(r.Min, int(r.Ratio*float64(first))) {
					t.Fatalf("a retry starts after %d, with %d first attempts", retries, first)
				}
			}
			b.Start(again, now)
			all = append(all, start{now, again})
		}
	})
}

func TestAClockThatIsSetBackHoldsNoRetryForLong(t *testing.T) {
	b := NewThrottle(&Ratio{Ratio: 0.1, Window: time.Minute, Min: 2})
	now := time.Unix(1_000_000, 0)
	for range 2 {
		b.Start(true, now)
	}
	if at := b.Next(now); at.Sub(now) != time.Minute {
		t.Errorf("the next may start after %s, want a minute", at.Sub(now))
	}
	before := now.Add(-time.Hour)
	if at := b.Next(before); at.After(before) {
		t.Errorf("with a clock set back by an hour the next may start after %s, want at once", at.Sub(before))
	}
}
