package limit

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseReadsStartsAndTime(t *testing.T) {
	for text, want := range map[string]Rate{
		"40/s":       {Count: 40, Per: time.Second},
		"100/m":      {Count: 100, Per: time.Minute},
		"100/min":    {Count: 100, Per: time.Minute},
		"1000/h":     {Count: 1000, Per: time.Hour},
		"1/d":        {Count: 1, Per: 24 * time.Hour},
		"3/10s":      {Count: 3, Per: 10 * time.Second},
		" 3 / 1m30s": {Count: 3, Per: 90 * time.Second},
		"10000/s":    {Count: 10000, Per: time.Second},
	} {
		got, err := ParseRate(text)
		if err != nil || got != want {
			t.Errorf("%s: got %+v and %v, want %+v", text, got, err, want)
		}
		if again, err := ParseRate(got.String()); err != nil || again != got {
			t.Errorf("%s: written as %q, which is %+v and %v", text, got, again, err)
		}
	}
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"0/s":                     "count must be an integer of at least 1",
		"-5/s":                    "count must be an integer",
		"40":                      "use 40/s",
		"fast":                    "as in 40/s",
		"1.5/s":                   "count must be an integer",
		"/s":                      "count must be an integer",
		"40/":                     "the period must be a duration",
		"40/0s":                   "the period must be a duration",
		"40/s/s":                  "the period must be a duration",
		"40/fortnight":            "the period must be a duration",
		"10001/s":                 "the maximum is 10,000",
		"9223372036854775807/h":   "the maximum is 10,000",
		"99999999999999999999/s":  "count must be an integer",
		"1/2d":                    "the minimum is one per day",
		"1/99999999999999999999h": "the period must be a duration",
	} {
		if _, err := ParseRate(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", text, err, want)
		}
	}
}

func TestLeastIsHowLongALimiterTakes(t *testing.T) {
	for _, l := range []Rate{{}, {Count: 40, Per: time.Second}, {Count: 3, Per: 10 * time.Second}, {Count: 100, Per: time.Minute, Burst: 7}, {Count: 10000, Per: time.Second}} {
		limiter, last := NewRateLimiter(l), noon
		for n := 1; n <= 50; n++ {
			if at := limiter.Next("", last); at.After(last) {
				last = at
			}
			limiter.Start("", last)
			if got, want := l.Least(n), last.Sub(noon); got != want {
				t.Errorf("%v: %d starts take %v, want %v", l, n, got, want)
			}
		}
	}
	if got := (Rate{Count: 1, Per: 24 * time.Hour}).Least(1 << 60); got != 1<<63-1 {
		t.Errorf("very many starts take %v", got)
	}
}

func TestABurstComesAtOnceAndThenTheRate(t *testing.T) {
	l := NewRateLimiter(Rate{Count: 10, Per: time.Second, Burst: 3})
	var got []time.Duration
	now := noon
	for range 6 {
		if at := l.Next("", now); at.After(now) {
			now = at
		}
		l.Start("", now)
		got = append(got, now.Sub(noon))
	}
	for i, want := range []time.Duration{0, 0, 0, 100 * time.Millisecond, 200 * time.Millisecond, 300 * time.Millisecond} {
		if got[i] != want {
			t.Errorf("start %d: got it after %s, want %s", i, got[i], want)
		}
	}
}

func TestNoLimitNeverWaits(t *testing.T) {
	l := NewRateLimiter(Rate{})
	for range 100 {
		l.Start("a", noon)
	}
	if at := l.Next("a", noon); at.After(noon) || l.Keys() > 0 {
		t.Errorf("got %v and %d keys, want now and none", at, l.Keys())
	}
}

// TestAClockThatWasSetBackStopsNothing: the time of the last start says nothing when it is in the future. Who
// waits asks again when its time has come.
func TestAClockThatWasSetBackStopsNothing(t *testing.T) {
	l := NewRateLimiter(Rate{Count: 1, Per: time.Minute, Burst: 2})
	l.Start("", noon)
	l.Start("", noon)
	earlier := noon.Add(-5 * time.Hour)
	now := earlier
	var got []time.Duration
	for range 4 {
		asked := 0
		for at := l.Next("", now); at.After(now); at = l.Next("", now) {
			if asked++; asked > 3 {
				t.Fatalf("after %v: each time it is told to wait longer, now until %s", got, at)
			}
			now = at
		}
		l.Start("", now)
		got = append(got, now.Sub(earlier))
	}
	for i, want := range []time.Duration{0, 2 * time.Minute, 3 * time.Minute, 4 * time.Minute} {
		if got[i] != want {
			t.Errorf("start %d: got it after %s, want %s", i, got[i], want)
		}
	}
}

// TestNoWindowHasMoreStartsThanAllowed lets keys start as early as they may, and counts the starts of each in
// every window of time. Now and then the limiter is written and read, as by a checkpoint.
func TestNoWindowHasMoreStartsThanAllowed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := Rate{Count: rapid.IntRange(1, 50).Draw(t, "count"), Per: time.Second, Burst: rapid.IntRange(0, 5).Draw(t, "burst")}
		l, now := NewRateLimiter(limit), noon
		starts := map[string][]time.Time{}
		for range rapid.IntRange(1, 60).Draw(t, "starts") {
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "pause")) * time.Millisecond)
			key := strconv.Itoa(rapid.IntRange(0, 2).Draw(t, "key"))
			if l.Next(key, now).After(now) {
				continue
			}
			l.Start(key, now)
			starts[key] = append(starts[key], now)
			if rapid.Bool().Draw(t, "checkpoint") {
				again, asked := NewRateLimiter(limit), now.Add(time.Millisecond)
				data, err := json.Marshal(l)
				if err == nil {
					err = json.Unmarshal(data, again)
				}
				if err != nil || !again.Next(key, asked).Equal(l.Next(key, asked)) {
					t.Fatalf("after a checkpoint: got %v and %v, want %v", again.Next(key, asked), err, l.Next(key, asked))
				}
				l = again
			}
		}
		for key, times := range starts {
			for i := range times {
				for k := i; k < len(times); k++ {
					if n, most := k-i+1, int(limit.burst())+int(times[k].Sub(times[i])/limit.interval()); n > most {
						t.Fatalf("key %s: %d starts in %s, want at most %d", key, n, times[k].Sub(times[i]), most)
					}
				}
			}
		}
	})
}

// TestMemoryIsFlatWithAnyNumberOfKeys: keys whose buckets are full are forgotten, and beyond a bound keys
// share one bucket, which makes them slower and never faster.
func TestMemoryIsFlatWithAnyNumberOfKeys(t *testing.T) {
	quick := NewRateLimiter(Rate{Count: 1000, Per: time.Second, Burst: 1})
	for i := range 200_000 {
		quick.Start(strconv.Itoa(i), noon.Add(time.Duration(i)*time.Millisecond))
	}
	if got := quick.Keys(); got > 4*minSweep {
		t.Errorf("keys that are full again: got %d kept, want at most %d", got, 4*minSweep)
	}
	slow := NewRateLimiter(Rate{Count: 1, Per: time.Hour, Burst: 1})
	last := ""
	for i := range maxKeys + 50_000 {
		last = strconv.Itoa(i)
		slow.Start(last, noon)
	}
	if got := slow.Keys(); got > maxKeys+1 {
		t.Errorf("keys that wait: got %d kept, want at most %d", got, maxKeys+1)
	}
	if at := slow.Next(last, noon); !at.After(noon) {
		t.Error("a key beyond the bound may start again at once, want that it waits")
	}
	for i := range maxKeys + 1 {
		slow.Start("x", noon.Add(time.Duration(2+i)*time.Hour))
	}
	if got := slow.Keys(); got > 4*minSweep {
		t.Errorf("keys after their time: got %d kept", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"40/s", "1/d", "0/s", "3/10s", "/", "9/9/9"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseRate(text)
		if err != nil {
			return
		}
		if l.interval() < fastest || l.interval() > slowest || l.burst() < 1 {
			t.Errorf("%q: got %+v with an interval of %s and a burst of %d", text, l, l.interval(), l.burst())
		}
		if again, err := ParseRate(l.String()); err != nil || again != l {
			t.Errorf("%q: written as %q, which is %+v and %v", text, l.String(), again, err)
		}
	})
}
