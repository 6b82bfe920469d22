package errorpolicy

import (
	"cmp"
	"fmt"

	"prodigy/internal/check"
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
	l.limits()
	if rate := p.FailureThreshold; rate != nil && *rate == 0 {
		l.Add("failure_threshold: 0 stops the job at the first failure, but only after %d finished items; "+
			"to stop immediately use continue_on_failure: false", []any{quorum}, "failure_threshold")
	}
	return l.Found
}

// limits finds limits that no failure counts towards.
func (l *linter) limits() {
	why := l.firstStops()
	if kind := cmp.Or(l.OnItemFailure.Kind, DLQ); why == "" && kind != Custom && !kind.RunsAgain() &&
		!kind.row().failed {
		why = fmt.Sprintf("on_item_failure: %s does not count failures", kind)
	}
	if why == "" {
		return
	}
	if l.MaxFailures != 1 {
		l.Add("max_failures has no effect: %s", []any{why}, "max_failures")
	}
	l.Add("failure_threshold has no effect: %s", []any{why}, "failure_threshold")
}

// firstStops returns why the first failure stops the job, or "".
func (l *linter) firstStops() string {
	switch {
	case l.OnItemFailure.Kind.row().stops:
		return fmt.Sprintf("on_item_failure: %s stops the job at the first failure", l.OnItemFailure.Kind)
	case l.ContinueOnFailure != nil && !*l.ContinueOnFailure && l.OnItemFailure.Kind != Custom:
		return "continue_on_failure: false stops the job at the first failure"
	}
	return ""
}
