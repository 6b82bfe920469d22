package process

import (
	"context"
	"time"
)

// Elapsed returns how much time has passed from one time to another: by the monotonic clock, which on Linux
// stands still while the machine is suspended, or by the wall clock, which may be set, whichever is more. It is
// for a time after which others go on without this process: when the wall clock is set back nothing is
// different, and when it is set forward that time is over early, which costs work and is safe.
func Elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// Sleep waits for d. It returns the cause of the end of ctx if that comes first.
func Sleep(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
