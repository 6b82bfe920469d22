package workflow

import (
	"strings"
	"time"

	"prodigy/internal/breaker"
	"prodigy/internal/duration"
	"prodigy/internal/retry"
)

// warnOfPolicy warns of keys of block b, a retry policy, that have no effect.
func (r *reader) warnOfPolicy(p retry.Policy, b *block) {
	r.warnOfFindings(p.Ineffective(b.has), b.written)
}

// warnOfFindings adds a warning for each finding, at its key.
func (r *reader) warnOfFindings(found []breaker.Finding, written map[string]entry) {
	for _, f := range found {
		field, _, _ := strings.Cut(f.Field, ".")
		r.warn(written[field].key, "%s", f.Message)
	}
}

// warnOfErrorPolicy warns of keys of the error policy that have no effect.
func (r *reader) warnOfErrorPolicy() {
	p := r.w.ErrorPolicy
	r.warnOfFindings(p.Ineffective(func(key string) bool { return r.policy[key].key != nil }), r.policy)
	e := r.policy["circuit_breaker"]
	if r.w.Map == nil || p.CircuitBreaker == nil || e.value == nil {
		return
	}
	tests := find(e.value, "half_open_requests")
	if most := r.w.Map.MaxParallel; tests != nil && most.Var == "" && p.CircuitBreaker.HalfOpenRequests > most.Value {
		r.warn(tests, "half_open_requests is %d, but no more than max_parallel, %d, run at once", p.CircuitBreaker.HalfOpenRequests, most.Value)
	}
}

// warnOfPhases warns of keys that have no effect in phases that run once.
func (r *reader) warnOfPhases() {
	r.warnOfIdleBreakers(r.w.Commands)
	for name, p := range map[string]*Phase{"setup": r.w.Setup, "reduce": r.w.Reduce, "merge": r.w.Merge} {
		if p == nil {
			continue
		}
		r.warnOfIdleBreakers(p.Commands)
		if e, ok := r.limits[p.Pos]; ok {
			r.warnOfWaits(e, p.Timeout.Value, name, p.Commands)
		}
	}
}

// warnOfIdleBreakers warns of breakers that can never refuse their step, because it has too few tries to open them.
func (r *reader) warnOfIdleBreakers(steps []Step) {
	for _, s := range steps {
		if s.Retry == nil || s.Retry.CircuitBreaker == nil || r.breakers[s.Pos] == nil {
			continue
		}
		runs := s.Retry.Attempts
		if s.OnFailure != nil {
			runs += s.OnFailure.MaxAttempts
		}
		if threshold := s.Retry.CircuitBreaker.FailureThreshold; threshold >= runs {
			r.warn(r.breakers[s.Pos], "circuit_breaker has no effect: its failure_threshold is %d, and this step runs once with at most %d tries", threshold, runs)
		}
	}
}

// warnOfAgentLimit warns of an agent timeout that is too short for the steps. phase and config are the blocks of the map and of its
// timeout_config; they can be nil.
func (r *reader) warnOfAgentLimit(m *Map, phase, config *block) {
	for _, b := range []*block{phase, config} {
		if b == nil || !b.has("agent_timeout_secs") || m.AgentLimit().Value == 0 {
			continue
		}
		e, limit := b.written["agent_timeout_secs"], m.AgentLimit().Value
		r.warnOfWaits(e, limit, "an agent", m.AgentTemplate)
		for i, s := range m.AgentTemplate {
			if s.Timeout > limit {
				r.warn(e.value, "%s: %s has a timeout of %s, which is longer than this limit of the whole agent", e.name, s.Label(i), duration.Format(s.Timeout))
			}
		}
	}
}

// warnOfWaits warns of a timeout that is no longer than the retry waits of its steps.
func (r *reader) warnOfWaits(e entry, timeout time.Duration, what string, steps []Step) {
	if waits := MaxRetryWait(steps); timeout > 0 && waits >= timeout {
		r.warn(e.value, "%s: the steps of %s may wait %s in their retries, which is no less than this timeout", e.name, what, duration.Format(waits))
	}
}
