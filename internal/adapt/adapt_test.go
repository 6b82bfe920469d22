package adapt

import (
	"container/heap"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// service is one that takes calls at a rate, with a bucket, and gets slower with more at once.
type service struct {
	rate, burst float64 // 0: no limit of the rate
	base        time.Duration
	quick       int // calls at once that do not slow it down
	spread      float64

	less time.Time // from then on it takes half as many; zero: it does not

	tokens float64
	at     time.Time
}

// call answers a call: how long it takes, and whether it is refused.
func (s *service) call(now time.Time, calls int, rnd *rand.Rand) (took time.Duration, refused bool) {
	if !s.less.IsZero() && !now.Before(s.less) {
		s.rate, s.less = s.rate/2, time.Time{}
	}
	if s.rate > 0 {
		if s.at.IsZero() {
			s.tokens = s.burst
		} else {
			s.tokens = min(s.burst, s.tokens+now.Sub(s.at).Seconds()*s.rate)
		}
		if s.at = now; s.tokens < 1 {
			return 2 * time.Millisecond, true
		}
		s.tokens--
	}
	factor := max(1, float64(calls)/float64(s.quick)) * (1 + s.spread*(rnd.Float64()-0.5))
	return time.Duration(float64(s.base) * factor), false
}

// happening is a call that ends, or one that may be made again.
type happening struct {
	at    time.Time
	began time.Time
	took  time.Duration
	kind  Kind
	again bool
}

type timeline []happening

func (t timeline) Len() int           { return len(t) }
func (t timeline) Less(i, k int) bool { return t[i].at.Before(t[k].at) }
func (t timeline) Swap(i, k int)      { t[i], t[k] = t[k], t[i] }
func (t *timeline) Push(x any)        { *t = append(*t, x.(happening)) }
func (t *timeline) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}

// simulated is what became of calls to a service.
type simulated struct {
	took    time.Duration
	refused int
	most    int // at once
	changes []Change
}

// simulate makes n calls, each until it succeeds, as a pool with a limiter does.
func simulate(l *Limiter, s *service, n int, seed uint64) (r simulated) {
	return simulateBy(func(t time.Time) time.Time { return t }, l, s, n, seed)
}

// simulateBy is simulate with a clock that says what time it is.
func simulateBy(clock func(time.Time) time.Time, l *Limiter, s *service, n int, seed uint64) (r simulated) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	now, ready, running, left := noon, n, 0, n
	var line timeline
	for left > 0 {
		for ready > 0 && running < l.AtOnce() && !l.Next(clock(now)).After(clock(now)) {
			l.Start(clock(now))
			ready--
			running++
			r.most = max(r.most, running)
			took, refused := s.call(now, running, rnd)
			h := happening{at: now.Add(took), began: now, took: took, kind: Good}
			if refused {
				h.kind = Refused
			}
			heap.Push(&line, h)
		}
		next := now.Add(time.Hour)
		if ready > 0 && running < l.AtOnce() {
			next = now.Add(l.Next(clock(now)).Sub(clock(now)))
		}
		if len(line) == 0 || line[0].at.After(next) {
			now = next
			continue
		}
		h := heap.Pop(&line).(happening)
		now = h.at
		if h.again {
			ready++
			continue
		}
		e := End{Kind: h.kind, Began: clock(h.began), Calls: running}
		if running--; h.kind == Refused {
			e.Asked = time.Second
			r.refused++
			heap.Push(&line, happening{at: now.Add(time.Second), again: true})
		} else {
			e.Took = h.took
			left--
		}
		if c := l.End(e, clock(now)); c != nil {
			r.changes = append(r.changes, *c)
		}
	}
	r.took = now.Sub(noon)
	return r
}

// TestARateThatNobodyHasToldIsFound: against a service that takes 50 calls in a second, refuses more and gets slower with many at once, the time is close
// to the best that there is, and hardly a call is refused.
func TestARateThatNobodyHasToldIsFound(t *testing.T) {
	for name, s := range map[string]service{
		"with a small bucket":        {rate: 50, burst: 5, base: 100 * time.Millisecond, quick: 10},
		"with one of a second":       {rate: 50, burst: 50, base: 100 * time.Millisecond, quick: 10},
		"with unequal calls":         {rate: 50, burst: 10, base: 200 * time.Millisecond, quick: 20, spread: 1},
		"slow calls":                 {rate: 50, burst: 10, base: time.Second, quick: 100, spread: 0.5},
		"of a few calls in a minute": {rate: 0.5, burst: 2, base: time.Second, quick: 100, spread: 0.5},
	} {
		for seed := range uint64(3) {
			n := 1000
			if s.base > 500*time.Millisecond {
				n = 3000 // it takes longer to learn from slow calls
			}
			one := s
			r := simulate(New(Config{Min: 2, Max: 64}), &one, n, seed)
			best := time.Duration(float64(n) / s.rate * float64(time.Second))
			if r.took > best*11/10+10*s.base { // to learn takes the time of some calls
				t.Errorf("%s: took %s, want within a tenth of %s", name, r.took, best)
			}
			if len(r.changes) > 10 {
				t.Errorf("%s: %d changes are told", name, len(r.changes))
			}
			if r.refused > n/100 {
				t.Errorf("%s: %d of %d refused, want less than one in a hundred", name, r.refused, n)
			}
		}
	}
}

// TestAClockThatIsSetChangesLittle: after it was set by an hour the service is not called more often than it takes, and not much less.
func TestAClockThatIsSetChangesLittle(t *testing.T) {
	for name, by := range map[string]time.Duration{"back": -time.Hour, "forward": time.Hour} {
		for _, at := range []time.Duration{500 * time.Millisecond, 2 * time.Second, 10 * time.Second} {
			clock := func(t time.Time) time.Time {
				if t.Sub(noon) < at {
					return t
				}
				return t.Add(by)
			}
			// It takes less from the 15th second on, which has to be noticed.
			s := &service{rate: 50, burst: 5, base: 100 * time.Millisecond, quick: 10, less: noon.Add(15 * time.Second)}
			r := simulateBy(clock, New(Config{Min: 2, Max: 64}), s, 1500, 1)
			if best := 15*time.Second + 30*time.Second; r.took > best*6/5 || r.refused > 45 {
				t.Errorf("set %s after %s: took %s, %d refused, want about %s and less than 45", name, at, r.took, r.refused, best)
			}
		}
	}
}

// TestTheNumberAtOnceFollowsTheTimeOfCalls: without refusals it grows until calls take longer.
func TestTheNumberAtOnceFollowsTheTimeOfCalls(t *testing.T) {
	for name, c := range map[string]struct {
		quick       int
		least, most int
	}{
		"a service for 64":  {quick: 64, least: 64, most: 64},
		"a service for 10":  {quick: 10, least: 10, most: 40},
		"a service for one": {quick: 1, least: 2, most: 20},
	} {
		l := New(Config{Min: 2, Max: 64})
		r := simulate(l, &service{base: 100 * time.Millisecond, quick: c.quick, spread: 0.3}, 3000, 1)
		if len(r.changes) == 0 || r.changes[0].Reason == "" {
			t.Errorf("%s: got changes %v, want why there are more than %d", name, r.changes, 2)
		}
		if got := l.AtOnce(); got < c.least || got > c.most {
			t.Errorf("%s: %d at once at the end, want from %d to %d", name, got, c.least, c.most)
		}
	}
}

func TestOverloadCutsOnceForCallsOfTheSameTime(t *testing.T) {
	l := New(Config{Min: 1, Max: 100})
	l.mem.Limit = 30
	began, now := noon, noon.Add(time.Second)
	for range 10 {
		l.End(End{Kind: Overloaded, Began: began, Calls: 30}, now)
	}
	if got := l.AtOnce(); got != 20 {
		t.Errorf("after ten calls of one time: got %d, want 20", got)
	}
	l.End(End{Kind: Other, Began: now.Add(time.Second), Calls: 30}, now.Add(2*time.Second))
	if got := l.AtOnce(); got != 20 {
		t.Errorf("after a failure of its own: got %d, want 20", got)
	}
	for range 50 {
		now = now.Add(time.Second)
		l.End(End{Kind: Overloaded, Began: now.Add(-time.Millisecond), Calls: 30}, now)
	}
	if got := l.AtOnce(); got != 1 {
		t.Errorf("after many: got %d, want the least", got)
	}
}

func TestARefusalThatGoesOnHoldsEverythingAsLongAsTheServiceAsks(t *testing.T) {
	l := New(Config{Min: 2, Max: 8})
	now := noon
	for range 20 {
		now = now.Add(100 * time.Millisecond)
		l.End(End{Kind: Good, Began: now, Took: 50 * time.Millisecond, Calls: 2}, now)
	}
	refuse := func() { l.End(End{Kind: Refused, Began: now, Asked: 30 * time.Second, Calls: 2}, now) }
	if refuse(); l.Next(now).Sub(now) > time.Second {
		t.Errorf("after one refusal: nothing for %s", l.Next(now).Sub(now))
	}
	for range 2 {
		now = now.Add(time.Second)
		refuse()
	}
	if l.Next(now).Sub(now) != 30*time.Second {
		t.Errorf("after two more: nothing for %s, want 30s", l.Next(now).Sub(now))
	}
	if now = now.Add(-30 * time.Minute); l.Next(now).Sub(now) != 30*time.Second {
		t.Errorf("with the clock set back: nothing for %s, want 30s", l.Next(now).Sub(now))
	}
}

// TestAReplayEndsWithTheSame gives a limiter any calls, and another one the same from a checkpoint on. No limit leaves its bounds, and no wait has no end.
func TestAReplayEndsWithTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{Min: rapid.IntRange(1, 4).Draw(t, "min"), Max: rapid.IntRange(4, 20).Draw(t, "max")}
		a, b, now := New(c), New(c), noon
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(-2000, 20_000).Draw(t, "pause")) * time.Millisecond)
			if rapid.Bool().Draw(t, "start") {
				a.Start(now)
				b.Start(now)
			} else {
				e := End{
					Kind: Kind(rapid.IntRange(0, 3).Draw(t, "kind")), Began: now.Add(-time.Duration(rapid.IntRange(0, 5000).Draw(t, "took")) * time.Millisecond),
					Took: time.Duration(rapid.IntRange(0, 5000).Draw(t, "took")) * time.Millisecond, Calls: rapid.IntRange(1, 20).Draw(t, "calls"),
					Asked: time.Duration(rapid.IntRange(0, 100_000).Draw(t, "asked")) * time.Second,
				}
				if diff := cmp.Diff(a.End(e, now), b.End(e, now)); diff != "" {
					t.Fatalf("changes:\n%s", diff)
				}
			}
			if n := a.AtOnce(); n < c.Min || n > c.Max {
				t.Fatalf("%d at once, want from %d to %d", n, c.Min, c.Max)
			}
			if wait := a.Next(now).Sub(now); wait > 48*time.Hour {
				t.Fatalf("the next start is in %s", wait)
			}
			if rapid.Bool().Draw(t, "checkpoint") {
				data, err := json.Marshal(b)
				if b = New(c); err == nil {
					err = json.Unmarshal(data, b)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal([]int{a.AtOnce()}, []int{b.AtOnce()}) || !a.Next(now).Equal(b.Next(now)) {
				t.Fatalf("got %d and %v, want %d and %v", b.AtOnce(), b.Next(now), a.AtOnce(), a.Next(now))
			}
		}
	})
}
