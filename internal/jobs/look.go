package jobs

import (
	"context"
	"iter"
	"time"
)

// Looks yields again and again, until ctx ends, for a look at files of a job that grow: how often in a row nobody ran
// the job. Running reports whether somebody does; nil if nobody can tell. It is asked before a look, so that all that
// was written is seen when nobody runs the job.
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
