package retry

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/duration"
)

// Strategy is the name of a backoff strategy.
type Strategy string

const (
	Fixed       Strategy = "fixed"
	Linear      Strategy = "linear"
	Exponential Strategy = "exponential"
	Fibonacci   Strategy = "fibonacci"
	Custom      Strategy = "custom"
)

// Backoff is a strategy and its parameters; a nil parameter was not written.
// The table backoffs has the parameters and formulas of the strategies.
// The zero Backoff is exponential with base 2.
type Backoff struct {
	Strategy Strategy

	// the delay; default initial_delay
	Delay *time.Duration `yaml:"delay"`

	// the first delay; default initial_delay
	Initial *time.Duration `yaml:"initial"`

	// what each delay has more than the one before; default the first delay
	Increment *time.Duration `yaml:"increment"`

	// what each delay is multiplied by; default 2
	Base *float64 `yaml:"base"`

	// another word for base; default 2
	Multiplier *float64 `yaml:"multiplier"`

	// the delays one by one; past their end `max_delay`; default none
	Delays []time.Duration `yaml:"delays" list:"durations"`
}

// forever is the delay at which all arithmetic saturates.
const forever time.Duration = math.MaxInt64

// backoffs is the table of strategies: name, parameters, and the delay before retry n (from 1) where d is the
// first delay: the parameter delay or initial, else initial_delay. The caller caps the delay; forever stands
// for "the cap".
var backoffs = []struct {
	strategy   Strategy
	parameters string // the keys that it takes
	delay      func(b Backoff, d time.Duration, n int) time.Duration
}{
	{Fixed, "delay", func(_ Backoff, d time.Duration, _ int) time.Duration { return d }},
	{Linear, "initial increment", linear},
	{Exponential, "initial base multiplier", func(b Backoff, d time.Duration, n int) time.Duration {
		return times(d, math.Pow(b.factor(), float64(n-1)))
	}},
	{Fibonacci, "initial", func(_ Backoff, d time.Duration, n int) time.Duration { return times(d, fibonacci(n)) }},
	{Custom, "delays", func(b Backoff, _ time.Duration, n int) time.Duration {
		if n > len(b.Delays) {
			return forever
		}
		return b.Delays[n-1]
	}},
}

// Strategies returns the names of all strategies, in the order of the table.
func Strategies() []Strategy {
	var names []Strategy
	for _, b := range backoffs {
		names = append(names, b.strategy)
	}
	return names
}

// Parameters returns the keys that strategy s takes, and false when there is no such strategy.
func Parameters(s Strategy) ([]string, bool) {
	for _, b := range backoffs {
		if b.strategy == s {
			return strings.Fields(b.parameters), true
		}
	}
	return nil, false
}

// Computed returns the delay before retry n (1 is the first), capped at p.MaxDelay, before jitter. It is the cap for an
// unknown strategy, which Check refuses.
func (p Policy) Computed(n int) time.Duration {
	for _, b := range backoffs {
		if b.strategy == p.strategy() {
			return min(max(b.delay(p.Backoff, p.first(), max(n, 1)), 0), p.limit())
		}
	}
	return p.limit()
}

func (p Policy) strategy() Strategy { return cmp.Or(p.Backoff.Strategy, Exponential) }

// Explain describes how the delay before retry n (1 is the first) is computed, as in "exponential backoff: 30s, which
// is max_delay; jitter full: between 0s and 30s". Previous is the delay before that, 0 for the first retry.
func (p Policy) Explain(n int, previous time.Duration) string {
	computed := p.Computed(n)
	text := fmt.Sprintf("%s backoff: %s", p.strategy(), duration.Format(computed))
	if computed == p.limit() {
		text += ", which is max_delay"
	}
	if p.Jitter != NoJitter {
		s := p.spreads(computed, previous)
		text += fmt.Sprintf("; jitter %s: between %s and %s", p.Jitter, duration.Format(s.From), duration.Format(s.To))
	}
	return text
}

// Spread is the interval that a delay is drawn from. Without jitter both ends are equal.
type Spread struct{ From, To time.Duration }

// Spreads returns the interval of the delay before each retry, up to the end of the budget, each computed after the
// longest delay before it. The list has at most 10,000.
func (p Policy) Spreads() []Spread {
	var spreads []Spread
	var waited time.Duration
	previous := p.first()
	for n := range min(p.Attempts, mostListed) - 1 {
		s := p.spreads(p.Computed(n+1), previous)
		if p.Budget > 0 && s.To > p.Budget-waited {
			break
		}
		spreads = append(spreads, s)
		waited, previous = duration.Plus(waited, s.To), s.To
	}
	return spreads
}

// Tries returns the highest possible number of tries: the attempts, or fewer if the budget cannot hold all
// the waits, whatever the jitter.
func (p Policy) Tries() int {
	if p.Budget > 0 && p.Jitter == NoJitter && p.Attempts <= mostListed {
		return 1 + len(p.Spreads())
	}
	return max(p.Attempts, 1)
}

// MaxWait returns how long all waits of p take together at most. With jitter, shorter waits let more of them
// fit in the budget, so it is the whole budget.
func (p Policy) MaxWait() time.Duration {
	spreads := p.Spreads()
	if p.Budget > 0 && p.Jitter != NoJitter && len(spreads) < p.Attempts-1 {
		return p.Budget
	}
	var total time.Duration
	for _, s := range spreads {
		total = duration.Plus(total, s.To)
	}
	return total
}

// mostListed bounds the tries that Spreads computes.
const mostListed = 10_001

// limit returns the cap of all delays.
func (p Policy) limit() time.Duration {
	if p.MaxDelay > 0 {
		return p.MaxDelay
	}
	return defaultMaxDelay
}

// first returns the first delay, D in the formulas.
func (p Policy) first() time.Duration {
	return *cmp.Or(p.Backoff.Delay, p.Backoff.Initial, &p.InitialDelay)
}

// factor returns the base of an exponential delay: the delay before retry n is d × base^(n−1).
func (b Backoff) factor() float64 {
	return *cmp.Or(b.Base, b.Multiplier, new(2.0))
}

// linear has three forms: without an increment the delay grows by d; with only an increment the first delay
// is d; with an initial delay and an increment the first delay already includes one increment.
func linear(b Backoff, d time.Duration, n int) time.Duration {
	if b.Increment == nil {
		return times(d, float64(n))
	}
	if b.Initial == nil {
		n--
	}
	return duration.Plus(d, times(*b.Increment, float64(n)))
}

// fibonacci returns the n-th number of 1 1 2 3 5 8 …, and infinity where that is longer than any delay: the number
// after the 92nd does not fit in 63 bits.
func fibonacci(n int) float64 {
	if n > 92 {
		return math.Inf(1)
	}
	a, b := int64(0), int64(1)
	for range n - 1 {
		a, b = b, a+b
	}
	return float64(b)
}

// times multiplies and saturates: NaN and values that are too large become forever, negative ones 0. 0 stays 0, even
// times infinity.
func times(d time.Duration, factor float64) time.Duration {
	switch ns := float64(d) * factor; {
	case d <= 0, ns < 0:
		return 0
	case ns < math.MaxInt64:
		return time.Duration(ns)
	}
	return forever
}

// Check finds what is wrong with b as a block of a workflow file.
func (b Backoff) Check(found *check.Findings) {
	positive := func(key string, factor *float64) {
		found.Require(factor == nil || *factor > 0, key, "%s must be a number greater than 0", key)
	}
	positive("base", b.Base)
	positive("multiplier", b.Multiplier)
	found.Require(b.Base == nil || b.Multiplier == nil, "multiplier",
		"base and multiplier are aliases; use one")
}

// Jitter is the name of a way to randomise delays, so that the items that failed together do not come back together.
// Full, equal and decorrelated are those of Marc Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog,
// 2015.
type Jitter string

const (
	NoJitter Jitter = ""

	// Proportional is uniform in [d(1−f), d(1+f)], where f is the jitter_factor. In a workflow file it is true.
	Proportional Jitter = "proportional"

	// FullJitter is uniform in [0, d].
	FullJitter Jitter = "full"

	// EqualJitter is uniform in [d/2, d].
	EqualJitter Jitter = "equal"

	// Decorrelated is uniform in [first, 3 × previous], up to max_delay. It does not depend on d, and so not on the
	// backoff: each delay grows from the one before.
	Decorrelated Jitter = "decorrelated"
)

// ReadText reads a jitter as it is written in a workflow file: true, false, full, equal or decorrelated.
func (j *Jitter) ReadText(text string) error {
	switch text {
	case "true":
		*j = Proportional
	case "false":
		*j = NoJitter
	case string(FullJitter), string(EqualJitter), string(Decorrelated):
		*j = Jitter(text)
	default:
		return check.Sentencef("unknown jitter %q (want true, false, full, equal or decorrelated)", text)
	}
	return nil
}

// NewRand returns the source of jitter for one item and step: the same seed and keys give the same delays in every run.
func NewRand(seed uint64, keys ...string) *rand.Rand {
	h := fnv.New64a()
	var length [8]byte
	for _, k := range keys {
		binary.LittleEndian.PutUint64(length[:], uint64(len(k)))
		// With the length, ("ab", "c") is not ("a", "bc").
		_, _ = h.Write(length[:])
		_, _ = h.Write([]byte(k))
	}
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// spread applies jitter to the computed delay d, after the cap, so that many retries at the cap still spread.
// Only decorrelated delays stay below the cap. previous is the delay before this one, 0 before the first.
func (p Policy) spread(d, previous time.Duration, rnd *rand.Rand) time.Duration {
	low, high := p.bounds(d, previous)
	if high <= low {
		return low
	}
	return min(low+time.Duration(rnd.Uint64N(uint64(high-low)+1)), p.ceiling())
}

// spreads returns the shortest and the longest delay that spread can give.
func (p Policy) spreads(d, previous time.Duration) Spread {
	low, high := p.bounds(d, previous)
	return Spread{low, min(max(low, high), p.ceiling())}
}

// bounds returns the interval that the delay is drawn from, both ends included. Of a decorrelated delay high may be
// above the ceiling, which spread applies after the draw: many delays are then the cap itself, as in the source.
func (p Policy) bounds(d, previous time.Duration) (low, high time.Duration) {
	switch p.Jitter {
	case Proportional:
		f := min(max(p.JitterFactor, 0), 1)
		return times(d, 1-f), times(d, 1+f)
	case FullJitter:
		return 0, d
	case EqualJitter:
		return d / 2, d
	case Decorrelated:
		first := max(p.first(), 0)
		return min(first, p.limit()), max(first, times(max(previous, first), 3))
	}
	return d, d
}

// ceiling returns the cap of jittered delays. A proportional one may exceed max_delay, which caps d alone.
func (p Policy) ceiling() time.Duration {
	if p.Jitter == Decorrelated {
		return p.limit()
	}
	return forever
}
