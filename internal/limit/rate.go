package limit

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"

	"prodigy/internal/duration"
)

// Rate is how many starts there may be in a time. The zero Rate is no limit.
type Rate struct {
	Count int           // starts
	Per   time.Duration // in this time

	// starts at once, after a time without any: by default as many as there are in a tenth of a second, at least 1
	Burst int
}

const (
	// fastest and slowest are the intervals between two starts that make sense: prodigy cannot start commands
	// faster, and nobody waits longer.
	fastest = 100 * time.Microsecond
	slowest = 24 * time.Hour

	forms = "as in 40/s, 100/min, 1000/h or 3/10s"
)

// ReadText reads a limit such as 40/s.
func (l *Rate) ReadText(text string) (err error) {
	*l, err = ParseRate(text)
	return err
}

// ParseRate parses a limit such as 40/s. What is behind the slash is a unit of time, or a duration.
func ParseRate(text string) (l Rate, err error) {
	count, per, ok := strings.Cut(text, "/")
	n, err := strconv.ParseInt(strings.TrimSpace(count), 10, 64)
	switch {
	case !ok && err == nil:
		return l, fmt.Errorf("invalid rate %q: missing period; use %s/s for one second", text,
			strings.TrimSpace(count))
	case !ok || err != nil || n <= 0:
		return l, fmt.Errorf("invalid rate %q: count must be an integer of at least 1, %s", text, forms)
	}
	unit := strings.TrimSpace(per)
	if unit == "" || unit[0] < '0' || unit[0] > '9' {
		if unit == "min" {
			unit = "m"
		}
		unit = "1" + unit
	}
	d, err := duration.Parse(unit)
	if err != nil || d <= 0 {
		return l, fmt.Errorf("invalid rate %q: the period must be a duration, %s", text, forms)
	}
	l = Rate{Count: int(min(n, 1<<31-1)), Per: d}
	switch {
	case n > int64(d/fastest):
		return Rate{}, fmt.Errorf("invalid rate %q: the maximum is 10,000 per second; leave it out for no limit", text)
	case l.interval() > slowest:
		return Rate{}, fmt.Errorf("invalid rate %q: the minimum is one per day", text)
	}
	return l, nil
}

// String returns the limit as Parse reads it.
func (l Rate) String() string {
	per := duration.Format(l.Per)
	switch l.Per {
	case time.Second, time.Hour:
		per = per[1:]
	case time.Minute:
		per = "min"
	}
	return strconv.Itoa(l.Count) + "/" + per
}

// PerSecond returns how many starts there are in a second.
func (l Rate) PerSecond() float64 { return float64(l.Count) / l.Per.Seconds() }

// Least returns how long n starts of one key take at least.
func (l Rate) Least(n int) time.Duration {
	if l.Count == 0 {
		return 0
	}
	after := max(0, time.Duration(n)-l.burst()) // the first burst is at once
	if after > math.MaxInt64/l.interval() {
		return math.MaxInt64
	}
	return after * l.interval()
}

// interval is the time between two starts. It is rounded up, so that there are never more than allowed.
func (l Rate) interval() time.Duration {
	return (l.Per + time.Duration(l.Count) - 1) / time.Duration(l.Count)
}

func (l Rate) burst() time.Duration {
	if l.Burst > 0 {
		return time.Duration(l.Burst)
	}
	return max(1, time.Second/10/l.interval())
}

// RateLimiter says when the next start of a key may be. Each key has the limit for itself. It is a pure state machine:
// starts and the clock go in, the time of the next start comes out, so that a RateLimiter that is told them again gives
// the same. It is the generic cell rate algorithm (ITU-T I.371), which is a token bucket that keeps one time for each
// key instead of a count and a time. It is not safe for concurrent use.
//
// In any time t there are at most t / interval + burst starts of a key, as long as each is after Next. After
// the clock was set back the next start of a key may be at once.
type RateLimiter struct {
	limit Rate
	rateMemory
}

// rateMemory is what a RateLimiter remembers.
type rateMemory struct {
	// Full is when the bucket of a key will be full again. A key whose bucket is full need not be here.
	Full   map[string]time.Time `json:"full,omitempty"`
	Starts int                  `json:"starts,omitempty"` // since those were removed whose time has passed
}

// NewRateLimiter returns a limiter that has seen no start. With the zero Rate nothing ever waits.
func NewRateLimiter(l Rate) *RateLimiter { return &RateLimiter{limit: l} }

// Limits reports whether there is a limit.
func (l *RateLimiter) Limits() bool { return l.limit.Count > 0 }

// Keys returns for how many keys something is remembered.
func (l *RateLimiter) Keys() int { return len(l.Full) }

const (
	// maxKeys bounds the keys that have a bucket each. Further ones share that of noRoom: they start less often than
	// they might, and never more often.
	maxKeys = 1 << 16
	noRoom  = "\x00"

	// minSweep is how many starts there are at least between two sweeps.
	minSweep = 1 << 10
)

// full returns when the bucket of a key will be full.
func (m *rateMemory) full(key string) (at time.Time, known bool) {
	if at, known = m.Full[key]; !known { // it may have started when there was no room
		at = m.Full[noRoom]
	}
	return at, known
}

// Next returns when a key may start next: at once, if that is not after now.
func (l *RateLimiter) Next(key string, now time.Time) time.Time {
	if !l.Limits() {
		return now
	}
	full, _ := l.full(key)
	if full.After(l.empty(now).Add(l.limit.interval())) {
		return now // a time that moves along with now would never come
	}
	return l.bounded(full, now).Add(-(l.limit.burst() - 1) * l.limit.interval())
}

// bounded returns the time at which a bucket is full. It is never later than that of an empty bucket, unless
// the clock was set back.
func (l *RateLimiter) bounded(full, now time.Time) time.Time {
	if empty := l.empty(now); full.After(empty) {
		return empty
	}
	return full
}

// empty returns the time at which a bucket will be full that is empty now.
func (l *RateLimiter) empty(now time.Time) time.Time {
	return now.Add(l.limit.burst() * l.limit.interval())
}

// Start records a start of a key.
func (l *RateLimiter) Start(key string, now time.Time) {
	if !l.Limits() {
		return
	}
	if l.Full == nil {
		l.Full = map[string]time.Time{}
	}
	if l.Starts++; l.Starts > max(len(l.Full), minSweep) {
		l.sweep(now)
	}
	full, known := l.full(key)
	if !known && len(l.Full) >= maxKeys {
		key = noRoom
	}
	l.Full[key] = later(l.bounded(full, now), now).Add(l.limit.interval())
}

// sweep forgets the keys whose buckets are full. It comes after as many starts as there are keys, so that a
// start costs little on average.
func (l *RateLimiter) sweep(now time.Time) {
	maps.DeleteFunc(l.Full, func(_ string, full time.Time) bool { return !full.After(now) })
	l.Starts = 0
}
