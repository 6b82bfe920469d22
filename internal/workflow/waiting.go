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
			total = sum(total, times(Waiting(steps), s.rounds(key)))
		}
	}
	return total
}

// rounds returns how often the steps under a key of s are run at most.
func (s Step) rounds(key string) int {
	if key == "on_failure" {
		return max(s.OnFailure.MaxAttempts, 1)
	}
	return 1
}

// waiting returns how long s waits between its tries at most. Where its handler has it run again, that is a single try.
func (s Step) waiting() time.Duration {
	var total time.Duration
	if s.Retry == nil {
		return 0
	}
	for _, d := range s.Retry.Worst() {
		total = sum(total, d)
	}
	return total
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
