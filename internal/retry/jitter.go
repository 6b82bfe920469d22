package retry

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"prodigy/internal/check"
)

// Jitter is the name of a way to randomise delays.
type Jitter string

const (
	NoJitter     Jitter = ""
	Proportional Jitter = "proportional" // written true: uniform in [d(1-f), d(1+f)]
	FullJitter   Jitter = "full"
	EqualJitter  Jitter = "equal"
	Decorrelated Jitter = "decorrelated"
)

// jitters are all values but NoJitter.
var jitters = []Jitter{Proportional, FullJitter, EqualJitter, Decorrelated}

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
		_, _ = h.Write(length[:]) // so that ("ab", "c") is not ("a", "bc")
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

// top returns the longest delay that spread can give.
func (p Policy) top(d, previous time.Duration) time.Duration {
	low, high := p.bounds(d, previous)
	return min(max(low, high), p.ceiling())
}

// bounds returns the interval that the delay is drawn from.
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

// ceiling is the cap of jittered delays.
func (p Policy) ceiling() time.Duration {
	if p.Jitter == Decorrelated {
		return p.limit()
	}
	return forever
}
