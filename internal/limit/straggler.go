package limit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"prodigy/internal/check"
	"prodigy/internal/duration"
)

// StragglerConfig is a straggler block.
type StragglerConfig struct {
	// duration after which an attempt is a straggler: a multiple of a percentile of successful attempts so far,
	// such as `3×p95` (also `3xp95`, `3*p95`; p50 to p99), at least 1s, or a duration such as `10m`. A
	// percentile requires 20 successful attempts (up to 100 for p99); required
	After StragglerAfter `yaml:"after" required:"true"`

	// whether stragglers are stopped, which counts as a timeout: the item is retried if it has retries.
	// Otherwise they are only reported; default false
	Stop bool `yaml:"stop"`
}

// StragglerAfter is how long an attempt may take. The zero StragglerAfter is no limit.
type StragglerAfter struct {
	Factor  float64       // times the percentile. Without a factor, Time counts
	Percent int           // which percentile
	Time    time.Duration // without a percentile
}

const (
	leastPercent, mostPercent = 50, 99
	leastFactor, mostFactor   = 1.0, 1000.0
)

// ReadText reads a multiple of a percentile, such as 3×p95, or a time.
func (a *StragglerAfter) ReadText(text string) error {
	const forms = "a multiple of a percentile such as 3×p95, or a duration such as 10m"
	switch d, wrong := duration.Parse(text); {
	case text == "":
		return check.Want(forms)
	case wrong == nil && d == 0:
		return check.Sentence("after must be more than 0")
	case wrong == nil:
		*a = StragglerAfter{Time: d}
		return nil
	}
	wrong := fmt.Errorf("must be a multiple of a percentile from p50 to p99 (3×p95) or a duration (10m), got %q", text)
	at := strings.IndexAny(text, "×xX*")
	if at < 0 {
		return wrong
	}
	_, size := utf8.DecodeRuneInString(text[at:])
	factor, wrongFactor := strconv.ParseFloat(strings.TrimSpace(text[:at]), 64)
	name, isPercentile := strings.CutPrefix(strings.ToLower(strings.TrimSpace(text[at+size:])), "p")
	percent, wrongPercent := strconv.Atoi(name)
	if wrongFactor != nil || wrongPercent != nil || !isPercentile || !(factor >= leastFactor && factor <= mostFactor) ||
		percent < leastPercent || percent > mostPercent {
		return wrong
	}
	*a = StragglerAfter{Factor: factor, Percent: percent}
	return nil
}

// String returns the limit as it is written in a workflow.
func (a StragglerAfter) String() string {
	if a.Factor == 0 {
		return duration.Format(a.Time)
	}
	return strconv.FormatFloat(a.Factor, 'g', -1, 64) + "×p" + strconv.Itoa(a.Percent)
}

// Limits reports whether there is a limit.
func (a StragglerAfter) Limits() bool { return a.Factor > 0 || a.Time > 0 }

const (
	// leastAttempts is how many attempts have to have succeeded before a percentile is believed.
	leastAttempts = 20
	// leastTime is how long an attempt may take, however short the others are: less is not worth the attention.
	leastTime = time.Second
)

// enough returns how many attempts have to have succeeded: of fewer, none lies above the percentile.
func (a StragglerAfter) enough() int {
	return max(leastAttempts, int(math.Ceil(100/float64(100-a.Percent))))
}

// StragglerTimes are the times that attempts of a job have taken, by which those are found that take unusually long.
//
// That is the backup task of MapReduce (Dean and Ghemawat, OSDI 2004), and the hedged request of "The Tail at Scale"
// (Dean and Barroso, CACM 2013): what takes much longer than nearly all others mostly does so for a reason of its own.
//
// It is a pure state machine, whose size does not grow, and not safe for concurrent use.
type StragglerTimes struct {
	StragglerAfter
	duration.Histogram
}

// NewStragglerTimes returns the times of a job in which no attempt has succeeded.
func NewStragglerTimes(a StragglerAfter) *StragglerTimes { return &StragglerTimes{StragglerAfter: a} }

// Add notes an attempt that has succeeded.
func (t *StragglerTimes) Add(took time.Duration) {
	if t.Factor > 0 {
		t.Histogram.Add(took)
	}
}

// Limit returns how long an attempt may take now. It reports false while too few attempts have succeeded to say.
func (t *StragglerTimes) Limit() (time.Duration, bool) {
	if t.Factor == 0 {
		return t.Time, t.Time > 0
	}
	if t.N() < t.enough() {
		return 0, false
	}
	limit := t.Factor * float64(t.Percentile())
	return time.Duration(max(float64(leastTime), min(limit, math.MaxInt64/2))), true
}

// Percentile returns the percentile that the limit is a multiple of; it is at most a quarter too long. It is
// 0 where there is none.
func (t *StragglerTimes) Percentile() time.Duration {
	if t.Factor == 0 {
		return 0
	}
	return t.Quantile(float64(t.Percent) / 100)
}
