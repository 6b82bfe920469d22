package errorpolicy

import (
	"fmt"

	"prodigy/internal/breaker"
)

// vain collects what a policy says without effect.
type vain struct {
	Policy
	written func(key string) bool
	found   []breaker.Finding
}

// Vain returns what p says without effect. Keys that were not written say nothing.
func (p Policy) Vain(written func(key string) bool) []breaker.Finding {
	v := &vain{Policy: p, written: written}
	v.limits()
	v.threshold()
	v.breaker()
	return v.found
}

func (v *vain) say(key, format string, args ...any) {
	if v.written(key) {
		v.found = append(v.found, breaker.Finding{Field: key, Message: fmt.Sprintf(format, args...)})
	}
}

// limits looks for limits that nothing counts up to.
func (v *vain) limits() {
	why := v.firstStops()
	if v.OnItemFailure.Kind == Skip && why == "" {
		why = "on_item_failure: skip counts no failures"
	}
	if why == "" {
		return
	}
	if v.MaxFailures != 1 {
		v.say("max_failures", "max_failures has no effect: %s", why)
	}
	v.say("failure_threshold", "failure_threshold has no effect: %s", why)
}

// firstStops returns why the first failure stops the job, or nothing.
func (v *vain) firstStops() string {
	switch {
	case v.OnItemFailure.Kind == Stop:
		return "on_item_failure: stop stops the job at the first failure"
	case v.ContinueOnFailure != nil && !*v.ContinueOnFailure && v.OnItemFailure.Kind != Custom:
		return "continue_on_failure: false stops the job at the first failure"
	}
	return ""
}

// threshold looks for rates that mean something else than they seem to.
func (v *vain) threshold() {
	if v.FailureThreshold == nil {
		return
	}
	switch *v.FailureThreshold {
	case 0:
		v.say("failure_threshold", "failure_threshold: 0 stops the job at a first failure, but not before %d items are finished; continue_on_failure: false does at once", quorum)
	case 1:
		v.say("failure_threshold", "failure_threshold: 1 stops nothing: no more than all items can fail")
	}
}

// breaker looks for one that cannot open before the job stops. Where items are tried again it can, by failures that are not final.
func (v *vain) breaker() {
	if v.CircuitBreaker == nil || v.OnItemFailure.Kind == Retry {
		return
	}
	threshold := v.CircuitBreaker.FailureThreshold
	first := v.firstStops()
	counted := v.OnItemFailure.Kind == "" || v.OnItemFailure.Kind == DLQ
	switch {
	case first != "":
		v.say("circuit_breaker", "circuit_breaker has no effect: %s", first)
	case counted && v.MaxFailures > 0 && v.MaxFailures <= threshold:
		v.say("circuit_breaker", "circuit_breaker cannot open before the job stops: its failure_threshold is %d, and max_failures is %d",
			threshold, v.MaxFailures)
	}
}
