package errorpolicy

import (
	"cmp"
	"fmt"

	"prodigy/internal/check"
)

// Ineffective returns findings about keys of p that have no effect, or not the one they seem to have. written
// reports whether a key is in the file; others are ignored.
func (p Policy) Ineffective(written func(key string) bool) []check.Finding {
	l := &check.Linter{Written: written}
	if rate := p.FailureThreshold; rate != nil && *rate == 0 {
		l.Add("failure_threshold: 0 stops the job at the first failure, but only after %d finished items; "+
			"to stop immediately use continue_on_failure: false", []any{quorum}, "failure_threshold")
	}
	// No failure counts towards a limit.
	why, kind := "", cmp.Or(p.OnItemFailure.Kind, DLQ)
	switch {
	case kind.row().stops:
		why = fmt.Sprintf("on_item_failure: %s stops the job at the first failure", kind)
	case kind == Custom:
	case p.ContinueOnFailure != nil && !*p.ContinueOnFailure:
		why = "continue_on_failure: false stops the job at the first failure"
	case !kind.RunsAgain() && !kind.row().failed:
		why = fmt.Sprintf("on_item_failure: %s does not count failures", kind)
	}
	if why != "" && p.MaxFailures != 1 {
		l.Add("max_failures has no effect: %s", []any{why}, "max_failures")
	}
	if why != "" {
		l.Add("failure_threshold has no effect: %s", []any{why}, "failure_threshold")
	}
	return l.Found
}
