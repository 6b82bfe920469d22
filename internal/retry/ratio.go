package retry

import (
	"encoding/json"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/duration"
)

// Ratio holds the retries of a job to a part of its first attempts, so that a service in trouble does not get
// more and more work by them. It is the retry budget of Finagle and Linkerd, over a window that suits
// attempts of seconds and minutes.
type Ratio struct {
	// maximum number of retries per first attempt, such as 0.2; required
	Ratio float64 `yaml:"ratio" required:"true" short:"true"`

	// period in which attempts are counted; default 1m
	Window time.Duration `yaml:"window" unit:"seconds"`

	// number of retries that may start per window regardless of the ratio, so that small jobs are not affected
	// and no retry waits forever; default 10
	Min int `yaml:"min"`
}

// SetDefaults sets what a ratio has beside its number.
func (r *Ratio) SetDefaults() { r.Window, r.Min = time.Minute, 10 }

// Check finds what is wrong with r as a block of a workflow file.
func (r Ratio) Check(found *check.Findings) {
	switch {
	case r.Ratio == 0:
		found.Require(false, "ratio", "retry_ratio: 0 allows only min retries: "+
			"for no retries, omit on_item_failure: retry and retry_config")
	case !(r.Ratio > 0):
		found.Require(false, "ratio", "retry_ratio must be more than 0, got %v", r.Ratio)
	}
	found.Require(!(r.Ratio > maxRatio), "ratio",
		"retry_ratio must be at most %d retries per first attempt, got %v; "+
			"omit it for no limit", maxRatio, r.Ratio)
	found.Require(r.Window >= time.Second && r.Window <= 24*time.Hour, "window",
		"window must be between 1s and 1d, got %s", duration.Format(r.Window))
	found.Require(r.Min >= 1 && r.Min <= maxFloor, "min",
		"min must be between 1 and %d, got %d: with 0, retries could wait forever", maxFloor, r.Min)
}

const (
	maxRatio = 100
	maxFloor = 1_000_000

	// ratioSlots is how many parts a window is counted in. A throttle remembers two numbers for each, however many
	// attempts start.
	ratioSlots = 60
)

// Throttle says when the next retry may start under a Ratio. It is a pure state machine: starts and the clock
// go in, the time of the next retry comes out. It is not safe for concurrent use.
//
// In a window that ends at the start of a retry there are at most max(min, ratio × first attempts) retries;
// windows end at sixtieths of their length.
type Throttle struct {
	ratio Ratio
	mem   throttleMemory
}

// throttleMemory is what a throttle remembers: everything but its ratio. It is part of the checkpoint of a job.
type throttleMemory struct {
	// Slots are in the order of time, without those in which nothing started. The last one is the latest start; those
	// that no window can hold any more are dropped at the next start.
	Slots []ratioSlot `json:"slots,omitempty"`
}

// ratioSlot is what started in a sixtieth of a window.
type ratioSlot struct {
	// N is the number of the slot: sixtieths of a window since 1970.
	N int64 `json:"n"`

	// First and Retries count the first attempts and the retries.
	First   int `json:"first,omitempty"`
	Retries int `json:"retries,omitempty"`
}

// NewThrottle returns a throttle that has seen no start. With a nil ratio no retry ever waits.
func NewThrottle(r *Ratio) *Throttle {
	if r == nil {
		return &Throttle{}
	}
	return &Throttle{ratio: *r}
}

// Limits reports whether there is a limit.
func (t *Throttle) Limits() bool { return t.ratio.Ratio > 0 }

// MarshalJSON encodes what the throttle remembers.
func (t *Throttle) MarshalJSON() ([]byte, error) { return json.Marshal(t.mem) }

// UnmarshalJSON restores what a throttle of the same ratio remembered.
func (t *Throttle) UnmarshalJSON(data []byte) error {
	t.mem = throttleMemory{}
	return json.Unmarshal(data, &t.mem)
}

// Start records a start, of a retry or of a first attempt. Both count as soon as they start, however they end.
func (t *Throttle) Start(retry bool, now time.Time) {
	if !t.Limits() {
		return
	}
	n := t.slot(now)
	kept := t.mem.Slots[:0]
	for _, s := range t.mem.Slots {
		// Slots after n are there if the clock has been set back. They would never leave the window.
		if s.N > n-ratioSlots && s.N <= n {
			kept = append(kept, s)
		}
	}
	if len(kept) == 0 || kept[len(kept)-1].N != n {
		kept = append(kept, ratioSlot{N: n})
	}
	if last := &kept[len(kept)-1]; retry {
		last.Retries++
	} else {
		last.First++
	}
	t.mem.Slots = kept
}

// slot returns the sixtieth of a window that a time is in.
func (t *Throttle) slot(at time.Time) int64 { return at.UnixNano() / int64(t.length()) }

// length returns how long a slot is. It is never 0, whatever the window is.
func (t *Throttle) length() time.Duration { return max(t.ratio.Window/ratioSlots, 1) }

// Counts returns what has started in the window that ends with now.
func (t *Throttle) Counts(now time.Time) (first, retries int) {
	return t.counts(t.slot(now), t.slot(now))
}

// counts returns what of the window of slot n was started no later than in slot latest. The window is slot n and the 59
// before it.
func (t *Throttle) counts(n, latest int64) (first, retries int) {
	for _, s := range t.mem.Slots {
		if s.N > n-ratioSlots && s.N <= latest {
			first, retries = first+s.First, retries+s.Retries
		}
	}
	return first, retries
}

// Free returns how many retries may start now. It is negative when the first attempts that allowed the retries have
// left the window. Without a limit it is more than any pool has room for.
func (t *Throttle) Free(now time.Time) int {
	if !t.Limits() {
		return 1 << 30
	}
	n := t.slot(now)
	return t.free(n, n)
}

// free returns how many retries may start in slot n if nothing has started since slot latest. As time passes, retries
// leave the window and make room, while first attempts leave it and take away from what the ratio allows.
func (t *Throttle) free(n, latest int64) int {
	first, retries := t.counts(n, latest)
	return max(t.ratio.Min, int(t.ratio.Ratio*float64(first))) - retries
}

// Next returns when a retry may start, if nothing else starts until then: at once, if that is not after now.
func (t *Throttle) Next(now time.Time) time.Time {
	if !t.Limits() {
		return now
	}
	n := t.slot(now)
	// A window of k slots from now has lost its k oldest ones. The floor of at least one retry makes the empty window,
	// after 60 slots, one that has room.
	for k := range int64(ratioSlots) {
		if t.free(n+k, n) <= 0 {
			continue
		}
		if k == 0 {
			return now
		}
		return time.Unix(0, (n+k)*int64(t.length()))
	}
	return time.Unix(0, (n+ratioSlots)*int64(t.length()))
}
