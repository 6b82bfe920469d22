package retry

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// jitters are all values but NoJitter.
var jitters = []Jitter{Proportional, FullJitter, EqualJitter, Decorrelated}

// drawn returns many jittered delays of d under jitter j.
func drawn(j Jitter, d, previous time.Duration) []time.Duration {
	p := Default()
	p.Jitter, p.JitterFactor = j, 0.3
	rnd := NewRand(1, "item_0")
	delays := make([]time.Duration, 2000)
	for i := range delays {
		delays[i] = p.spread(d, previous, rnd)
	}
	return delays
}

func TestJitterFillsItsInterval(t *testing.T) {
	const limit = 30 * time.Second
	for name, c := range map[string]struct {
		got       []time.Duration
		low, high time.Duration
	}{
		"true":                             {drawn(Proportional, 10*time.Second, 0), 7 * time.Second, 13 * time.Second},
		"true at the cap goes past it":     {drawn(Proportional, limit, 0), 21 * time.Second, 39 * time.Second},
		"full":                             {drawn(FullJitter, 10*time.Second, 0), 0, 10 * time.Second},
		"equal":                            {drawn(EqualJitter, 10*time.Second, 0), 5 * time.Second, 10 * time.Second},
		"decorrelated, first":              {drawn(Decorrelated, 10*time.Second, 0), time.Second, 3 * time.Second},
		"decorrelated, after 2s":           {drawn(Decorrelated, 10*time.Second, 2*time.Second), time.Second, 6 * time.Second},
		"decorrelated keeps below the cap": {drawn(Decorrelated, 10*time.Second, 20*time.Second), time.Second, limit},
	} {
		low, high := slices.Min(c.got), slices.Max(c.got)
		slack := (c.high - c.low) / 50
		if low < c.low || low > c.low+slack || high > c.high || high < c.high-slack {
			t.Errorf("%s: got from %v to %v, want from %v to %v", name, low, high, c.low, c.high)
		}
	}
}

func TestWithoutJitterNothingIsDrawn(t *testing.T) {
	if got := Default().spread(time.Second, 0, nil); got != time.Second {
		t.Errorf("got %v, want 1s", got)
	}
}

func TestJitterNeverBreaksItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{
			InitialDelay: time.Duration(rapid.Int64().Draw(t, "initial_delay")),
			MaxDelay:     time.Duration(rapid.Int64().Draw(t, "max_delay")),
			Jitter:       rapid.SampledFrom(append(jitters, NoJitter)).Draw(t, "jitter"),
			JitterFactor: rapid.Float64().Draw(t, "factor"),
		}
		d := min(time.Duration(rapid.Int64Min(0).Draw(t, "delay")), p.limit())
		previous := time.Duration(rapid.Int64Min(0).Draw(t, "previous"))
		got := p.spread(d, previous, NewRand(rapid.Uint64().Draw(t, "seed")))
		if top := p.spreads(d, previous).To; got < 0 || got > top {
			t.Fatalf("got %v, want between 0s and %v", got, top)
		}
		if p.Jitter == Decorrelated && got > p.limit() {
			t.Fatalf("got %v, want at most the cap %v", got, p.limit())
		}
	})
}

func TestSeedMakesJitterRepeatable(t *testing.T) {
	draw := func(seed uint64, keys ...string) uint64 { return NewRand(seed, keys...).Uint64() }
	first := draw(7, "item_1", "shell_0")
	if got := draw(7, "item_1", "shell_0"); got != first {
		t.Errorf("the same seed and keys: got %d, want %d", got, first)
	}
	for name, other := range map[string]uint64{
		"another seed":      draw(8, "item_1", "shell_0"),
		"another item":      draw(7, "item_2", "shell_0"),
		"another cut":       draw(7, "item_1s", "hell_0"),
		"keys in one":       draw(7, "item_1shell_0"),
		"one key fewer":     draw(7, "item_1"),
		"an empty key more": draw(7, "item_1", "shell_0", ""),
	} {
		if other == first {
			t.Errorf("%s: got the same draw, want another", name)
		}
	}
}

func TestJitterReadsTheDocumentedForms(t *testing.T) {
	for text, want := range map[string]Jitter{
		"true": Proportional, "false": NoJitter, "full": FullJitter, "equal": EqualJitter, "decorrelated": Decorrelated,
	} {
		var got Jitter
		if err := got.ReadText(text); err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", "yes", "proportional", "Full"} {
		var got Jitter
		if err := got.ReadText(text); err == nil {
			t.Errorf("%q: got %q, want an error", text, got)
		}
	}
}
