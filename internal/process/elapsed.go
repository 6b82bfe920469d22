package process

import "time"

// Elapsed returns how much time has passed from one time to another: by the monotonic clock, which on Linux
// stands still while the machine is suspended, or by the wall clock, which may be set, whichever is more. It is
// for a time after which others go on without this process: when the wall clock is set back nothing is
// different, and when it is set forward that time is over early, which costs work and is safe.
func Elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}
