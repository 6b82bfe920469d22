package limit

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// TestAClockThatIsSetChangesLittle: after it was set by an hour the service is not called much more often than it
// takes, and what it takes is soon found again.
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
			s := &service{rate: 50, burst: 5, base: 100 * time.Millisecond, quick: 10, at: 15 * time.Second, factor: 0.5}
			r := simulateBy(clock, NewAdaptive(AdaptiveConfig{Min: 2, Max: 64}), s, 1500, 1)
			if best := 15*time.Second + 30*time.Second; r.took > best*5/2 || len(r.refused) > 45 {
				t.Errorf("set %s after %s: took %s, %d refused, want about %s and less than 45", name, at, r.took, len(r.refused), best)
			}
		}
	}
}

// TestTheNumberAtOnceFollowsTheTimeOfCalls: without refusals it grows until calls take longer.
func TestTheNumberAtOnceFollowsTheTimeOfCalls(t *testing.T) {
	for name, c := range map[string]struct {
		min, quick  int
		least, most int
	}{
		"a service for 64":      {min: 2, quick: 64, least: 64, most: 64},
		"a service for 10":      {min: 2, quick: 10, least: 10, most: 40},
		"a service for one":     {min: 2, quick: 1, least: 2, most: 20},
		"from one at a service": {min: 1, quick: 64, least: 64, most: 64},
	} {
		l := NewAdaptive(AdaptiveConfig{Min: c.min, Max: 64})
		r := simulate(l, &service{base: 100 * time.Millisecond, quick: c.quick, spread: 0.3}, 3000, 1)
		if len(r.changes) == 0 || r.changes[0].Reason == "" {
			t.Errorf("%s: got changes %v, want why there are more than %d", name, r.changes, c.min)
		}
		if got := l.AtOnce(); got < c.least || got > c.most {
			t.Errorf("%s: %d at once at the end, want from %d to %d", name, got, c.least, c.most)
		}
	}
}

func TestOverloadCutsOnceForCallsOfTheSameTime(t *testing.T) {
	l := NewAdaptive(AdaptiveConfig{Min: 1, Max: 100})
	l.Limit = 30
	began, now := noon, noon.Add(time.Second)
	for range 10 {
		l.End(CallEnd{Kind: CallOverloaded, Began: began, Calls: 30}, now)
	}
	if got := l.AtOnce(); got != 20 {
		t.Errorf("after ten calls of one time: got %d, want 20", got)
	}
	l.End(CallEnd{Kind: CallOther, Began: now.Add(time.Second), Calls: 30}, now.Add(2*time.Second))
	if got := l.AtOnce(); got != 20 {
		t.Errorf("after a failure of its own: got %d, want 20", got)
	}
	for range 50 {
		now = now.Add(time.Second)
		l.End(CallEnd{Kind: CallOverloaded, Began: now.Add(-time.Millisecond), Calls: 30}, now)
	}
	if got := l.AtOnce(); got != 1 {
		t.Errorf("after many: got %d, want the least", got)
	}
}

// While calls take minutes, nothing measures a guess. It must not run away meanwhile: then no refusal would bring it down.
func TestAGuessDoublesOnceInASecondAtMost(t *testing.T) {
	l := NewAdaptive(AdaptiveConfig{Min: 1, Max: 32})
	for _, most := range []float64{0.5, 2, 4, 100, 1e6} {
		l.Most, l.Guess, l.Refused = most, 4, noon
		if got := l.Rate(noon.Add(3 * time.Second)); got > 8*most {
			t.Errorf("three seconds after a guess of %g/s: got %g/s, want %g/s at most", most, got, 8*most)
		}
	}
}

func TestARefusalThatGoesOnHoldsEverythingAsLongAsTheServiceAsks(t *testing.T) {
	l := NewAdaptive(AdaptiveConfig{Min: 2, Max: 8})
	now := noon
	for range 20 {
		now = now.Add(100 * time.Millisecond)
		l.Start(now)
		l.End(CallEnd{Kind: CallGood, Began: now, Took: 50 * time.Millisecond, Calls: 2}, now)
	}
	refuse := func() { l.End(CallEnd{Kind: CallRefused, Began: now, Asked: 30 * time.Second, Calls: 2}, now) }
	if refuse(); l.Next(now).Sub(now) > time.Second {
		t.Errorf("after one refusal: nothing for %s", l.Next(now).Sub(now))
	}
	now = now.Add(time.Second)
	refuse()
	if l.Next(now).Sub(now) != 30*time.Second {
		t.Errorf("after another one: nothing for %s, want 30s", l.Next(now).Sub(now))
	}
	if now = now.Add(-30 * time.Minute); l.Next(now).After(now) {
		t.Errorf("with the clock set back: nothing for %s, want a start at once, since nobody knows when it was", l.Next(now).Sub(now))
	}
}

// TestAReplayEndsWithTheSame gives a limiter any calls, and another one the same from a checkpoint on. No
// limit leaves its bounds, and no wait has no end.
func TestAReplayEndsWithTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := AdaptiveConfig{Min: rapid.IntRange(1, 4).Draw(t, "min"), Max: rapid.IntRange(4, 20).Draw(t, "max")}
		a, b, now := NewAdaptive(c), NewAdaptive(c), noon
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(-2000, 20_000).Draw(t, "pause")) * time.Millisecond)
			if rapid.Bool().Draw(t, "start") {
				a.Start(now)
				b.Start(now)
			} else {
				e := CallEnd{
					Kind: CallKind(rapid.IntRange(0, 3).Draw(t, "kind")), Began: now.Add(-time.Duration(rapid.IntRange(0, 5000).Draw(t, "took")) * time.Millisecond),
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
				if b = NewAdaptive(c); err == nil {
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

// TestALimitThatRisesIsTold: the rate is told also when it rises, and then because nothing was refused.
func TestALimitThatRisesIsTold(t *testing.T) {
	s := &service{rate: 50, burst: 10, base: 50 * time.Millisecond, quick: 40, at: 20 * time.Second, factor: 10}
	r := simulate(NewAdaptive(AdaptiveConfig{Min: 2, Max: 64}), s, 10000, 1)
	for _, c := range r.changes {
		if c.Rate > 100 && strings.HasPrefix(c.Reason, "the service refused no call of late") {
			return
		}
	}
	t.Errorf("got changes %+v, want one to more than 100 in a second", r.changes)
}
