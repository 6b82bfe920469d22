package outputs

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Policy says what is kept of the outputs of steps. The zero Policy stands for the defaults.
type Policy struct {
	Keep Keep `yaml:"keep" json:"keep,omitempty" words:"all failed none"` // which steps' output is kept; default all

	// maximum size per run of a step; the middle of longer output is dropped; default 256KiB
	PerStep Size `yaml:"per_step" json:"per_step,omitempty"`

	// maximum size per job, before compression; beyond 90% only the output of failed steps is kept, beyond 100%
	// none; default 1GiB
	PerJob Size `yaml:"per_job" json:"per_job,omitempty"`
}

// Keep says of which steps the output is kept.
type Keep string

const (
	All    Keep = "all"    // of every step
	Failed Keep = "failed" // of steps that failed or were stopped
	None   Keep = "none"   // of none
)

const (
	defaultPerStep = 256 << 10
	defaultPerJob  = 1 << 30
)

// WithDefaults returns p with its defaults filled in.
func (p Policy) WithDefaults() Policy {
	return Policy{cmp.Or(p.Keep, All), cmp.Or(p.PerStep, defaultPerStep), cmp.Or(p.PerJob, defaultPerJob)}
}

// Size is a number of bytes.
type Size int64

// units are those of sizes, the largest first.
var units = []struct {
	name string
	size int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// ReadText reads a size such as 256KiB.
func (s *Size) ReadText(text string) error {
	for _, u := range units {
		digits, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || digits[0] < '1' || n > math.MaxInt64/u.size {
			break
		}
		*s = Size(n * u.size)
		return nil
	}
	return fmt.Errorf("invalid size %q: use an integer and a unit, such as 256KiB, 10MiB or 1GiB", text)
}

// String returns s as ReadText reads it, in the largest unit that shows all of it.
func (s Size) String() string {
	for _, u := range units {
		if int64(s)%u.size == 0 && s != 0 {
			return strconv.FormatInt(int64(s)/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}
