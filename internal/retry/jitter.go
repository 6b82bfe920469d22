package retry

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"prodigy/internal/check"
)

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

// jitters are all values but NoJitter.
var jitters = []Jitter{Proportional, FullJitter, EqualJitter, Decorrelated}

// jitterForms says for messages how a jitter is written.
const jitterForms = "true, false, full, equal or decorrelated"

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
		return check.Finding{Field: "jitter", Message: fmt.Sprintf("unknown jitter %q (want %s)", text, jitterForms)}
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
