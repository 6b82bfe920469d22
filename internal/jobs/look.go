package jobs

import (
	"context"
	"iter"
	"time"
)

// Looks yields at intervals, until ctx ends, when it is time to look at the growing files of a job. It yields how often
// in a row nobody ran the job, as running says, which may be nil. It asks that before each look, so that everything is
// seen that was written before the run ended.
func Looks(ctx context.Context, every time.Duration, running func() bool) iter.Seq[int] {
	return func(yield func(int) bool) {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for idle := 1; ; idle++ {
			if running != nil && running() {
				idle = 0
			}
			if !yield(idle) {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}
}
