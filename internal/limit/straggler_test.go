package limit

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestAMultipleOfAPercentileIsReadInAllItsForms(t *testing.T) {
	for text, want := range map[string]string{
		"3×p95": "3×p95", "3xp95": "3×p95", "3*p95": "3×p95", " 2.5 X P50 ": "2.5×p50", "1×p99": "1×p99", "1000×p75": "1000×p75",
		"10m": "10m", "90": "!", "": "!", "fast": "!",
		"0.9×p95": "!", "1001×p95": "!", "3×p49": "!", "3×p100": "!", "3×95": "!", "×p95": "!", "3×": "!", "NaN×p95": "!", "Inf×p95": "!", "3×p9.5": "!", "p95": "!", "3p95": "!", "3×p95×2": "!",
	} {
		a, err := read[StragglerAfter](text)
		got := a.String()
		if err != nil {
			got = "!"
		}
		if got != want {
			t.Errorf("%q: got %s (%v), want %s", text, got, err, want)
		}
	}
}

// The limit is the multiple of what a list of all times gives, or up to a quarter more, once there are enough
// of them; it comes back from JSON.
func TestTheLimitIsThatOfAListOfAllTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := StragglerAfter{Factor: rapid.Float64Range(1, 10).Draw(t, "factor"), Percent: rapid.IntRange(leastPercent, mostPercent).Draw(t, "percent")}
		times := NewStragglerTimes(a)
		taken := rapid.SliceOfN(rapid.Int64Range(1, int64(time.Hour)), 0, 150).Draw(t, "taken")
		for i, d := range taken {
			times.Add(time.Duration(d))
			limit, known := times.Limit()
			if known != (i+1 >= a.enough()) {
				t.Fatalf("after %d times a limit is known: %v", i+1, known)
			}
			if !known {
				continue
			}
			sorted := slices.Sorted(slices.Values(taken[:i+1]))
			at := sorted[int(math.Ceil(float64(a.Percent)/100*float64(i+1)))-1]
			want := max(a.Factor*float64(at), float64(leastTime))
			if got := float64(limit); got < 0.999*want || got > 1.251*want {
				t.Fatalf("got %s, want %s or a quarter more", limit, time.Duration(want))
			}
		}
		data, err := json.Marshal(times)
		again := NewStragglerTimes(a)
		if err == nil {
			err = json.Unmarshal(data, again)
		}
		if err != nil || *again != *times {
			t.Fatalf("it does not come back from %s: %v", data, err)
		}
	})
}

func TestATimeIsALimitFromTheFirstAttemptOn(t *testing.T) {
	times := NewStragglerTimes(StragglerAfter{Time: 10 * time.Minute})
	times.Add(time.Hour)
	if limit, known := times.Limit(); !known || limit != 10*time.Minute || times.N() != 0 {
		t.Errorf("got %s %v with %d times kept, want 10m with none", limit, known, times.N())
	}
	if _, known := NewStragglerTimes(StragglerAfter{}).Limit(); known {
		t.Error("got a limit where there is none")
	}
}
