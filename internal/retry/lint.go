package retry

import (
	"slices"
	"strings"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/duration"
)

// linter collects findings about keys of a policy that have no effect.
type linter struct {
	Policy
	check.Linter
}

// Ineffective returns findings about keys of p that have no effect, or not the one they seem to have. written
// reports whether a key is in the file; others are ignored.
func (p Policy) Ineffective(written func(key string) bool) []check.Finding {
	l := &linter{Policy: p, Linter: check.Linter{Written: written}}
	if p.Attempts == 1 {
		// on_failure and circuit_breaker hold for a single try, too.
		for key := range strings.FieldsSeq(`backoff initial_delay max_delay jitter jitter_factor retry_on
			retry_after retry_budget`) {
			l.Add("%s has no effect with attempts: 1: there are no retries", []any{key}, key)
		}
		return l.Found
	}
	l.budget()
	l.cap()
	if b := l.Backoff; b.Strategy == Custom || b.Delay != nil || b.Initial != nil {
		l.Add("initial_delay has no effect: backoff lists its own delays", nil, "initial_delay")
	}
	if l.Jitter != Proportional {
		l.Add("jitter_factor has no effect without jitter: true", nil, "jitter_factor")
	}
	return l.Found
}

// budget finds tries that never run because the budget is too short for their waits.
func (l *linter) budget() {
	fit := 1 + len(l.Spreads())
	if l.Budget <= 0 || fit >= min(l.Attempts, mostListed) {
		return
	}
	may := "ends"
	if l.Jitter != NoJitter {
		may = "may end"
	}
	l.Add("retry_budget %s %s the retries after %s of %d: the next delay would exceed it",
		[]any{duration.Format(l.Budget), may, check.Counted(fit, "try"), l.Attempts}, "retry_budget", "attempts")
}

// cap finds a first delay that is already above max_delay. That later ones are is what max_delay is for.
func (l *linter) cap() {
	first := l.first()
	if l.Backoff.Strategy == Custom {
		first = slices.Max(append([]time.Duration{0}, l.Backoff.Delays...))
	}
	if first > l.limit() {
		l.Add("max_delay shortens a delay of %s to %s", []any{duration.Format(first), duration.Format(l.limit())},
			"max_delay", "initial_delay", "backoff")
	}
}
