package workflow

import (
	"math"
	"time"
)

// Waiting returns how long steps wait in their retries at most, and the steps inside of them.
func Waiting(steps []Step) time.Duration {
	var total time.Duration
	for _, s := range steps {
		total = sum(total, s.waiting())
		for key, steps := range s.Following() {
			rounds, _ := s.Rounds(key)
			total = sum(total, times(Waiting(steps), rounds))
		}
	}
	return total
}

// Rounds returns how often the steps under a key of s, as Following names it, are run one after another at most. The bool is false
// when that is known only when they are run; then it is once or more.
func (s Step) Rounds(key string) (n int, known bool) {
	switch key {
	case "on_failure":
		return max(s.OnFailure.MaxAttempts, 1), true
	case "do":
		return s.Foreach.rounds()
	case "validate":
		return s.Validate.mends() + 1, true
	case "on_incomplete":
		return s.Validate.mends(), true
	}
	return 1, true
}

// mends returns how often work that is not complete is mended at most.
func (v *Validate) mends() int {
	if v.OnIncomplete == nil {
		return 0
	}
	return v.OnIncomplete.MaxAttempts
}

// rounds returns how many elements the busiest of those that run at once has.
func (f *Foreach) rounds() (n int, known bool) {
	elements, known := len(f.Input.List), f.Input.Command == nil
	if f.MaxItems != nil && (!known || elements > *f.MaxItems) {
		elements, known = *f.MaxItems, true
	}
	if !known {
		return 1, false
	}
	parallel := max(f.Parallel, 1)
	if elements == 0 {
		return 0, true
	}
	return 1 + (elements-1)/parallel, true
}

// waiting returns how long s waits between its tries at most. Where its handler has it run again, that is a single try.
func (s Step) waiting() time.Duration {
	if s.Retry == nil {
		return 0
	}
	return s.Retry.Waiting()
}

// sum and times end at the longest duration that there is.
func sum(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func times(d time.Duration, n int) time.Duration {
	if d > 0 && time.Duration(n) > math.MaxInt64/d {
		return math.MaxInt64
	}
	return d * time.Duration(n)
}
