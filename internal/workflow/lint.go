package workflow

import (
	"path"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/limit"
	"prodigy/internal/retry"
)

// warnOfFindings adds a warning for each finding, at its key.
func (r *reader) warnOfFindings(found []check.Finding, written map[string]entry) {
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
	r.warnOfBreaker(e.key, p)
	tests := find(e.value, "half_open_requests")
	if most := r.w.Map.MaxParallel; tests != nil && most.Var == "" && p.CircuitBreaker.HalfOpenRequests > most.Value {
		r.warn(tests, "half_open_requests is %d, but max_parallel allows only %d at a time",
			p.CircuitBreaker.HalfOpenRequests, most.Value)
	}
}

// warnOfBreaker warns of a breaker of the job that can never open, or never close again.
func (r *reader) warnOfBreaker(at *yaml.Node, p errorpolicy.Policy) {
	m, c := r.w.Map, p.CircuitBreaker
	tries := 1
	if again := p.Retries(); again != nil {
		tries = again.Tries()
	}
	n, known := m.most()
	if known && n == 0 {
		return
	}
	if known && n*tries < c.FailureThreshold {
		r.warn(at, "circuit_breaker can never open: failure_threshold is %d, but at most %d failures are possible", c.FailureThreshold, n*tries)
		return
	}
	// Items whose retry is due later may test it, and so may those that somebody else still makes.
	file := path.Ext(m.Input.Text) != "" && !strings.ContainsAny(m.Input.Text, " \t\n;|&$(") // else it may be a command, which takes its time
	atOnce := file || m.Input.Items != nil || m.Input.File != nil || m.Input.Glob != nil || m.Input.Job != ""
	if tries == 1 && atOnce && c.Per == "" && c.OnOpen != limit.Wait {
		r.warn(at, "circuit_breaker never closes: after it opens, all remaining items are dead-lettered and none probes it; use on_open: wait")
	}
}

// warnOfRate warns of a rate that makes the job longer than its windows.
func (r *reader) warnOfRate() {
	m := r.w.Map
	n, known := m.most()
	if !known || len(m.Windows) == 0 || m.Rate.Per != nil {
		return
	}
	const week = 7 * 24 * time.Hour
	daily := m.Windows.OpenIn(time.Date(2030, 1, 7, 0, 0, 0, 0, time.UTC), week) / 7 // any week will do
	if least := m.Rate.Limit.Least(n); daily > 0 && least > daily {
		r.warnAt(m.Pos,
			"rate: %s, %d starts take at least %s, and the windows are open for %s a day: the job takes at least %d days",
			m.Rate.Limit, n, duration.Format(least.Round(time.Second)), duration.Format(daily.Round(time.Second)),
			(least+daily-1)/daily)
	}
}

// most returns how many items there are at most, if the file says that.
func (m *Map) most() (n int, known bool) {
	if m.Input.Items != nil {
		n, known = len(m.Input.Items), true
	}
	if m.MaxItems != nil && (!known || *m.MaxItems < n) {
		n, known = *m.MaxItems, true
	}
	return n, known
}

// warnOfItemMatchers warns of types in retry_on of the items that no failure of an item can have.
func (r *reader) warnOfItemMatchers(p errorpolicy.Policy) {
	e := r.policy["retry_config"]
	if p.RetryConfig == nil || e.key == nil {
		return
	}
	for _, m := range p.RetryConfig.RetryOn {
		switch t := retry.Type(m.Name); {
		case (t == retry.TypeMergeConflict || t == retry.TypeVerifyFailed) && !r.w.Workspace.Isolated():
			r.warn(e.key, "retry_on: %s never matches: merging needs workspace: git", t)
		case t == retry.TypeMissingOutput && len(r.w.Map.Produces) == 0:
			r.warn(e.key, "retry_on: %s never matches: map has no produces", t)
		}
	}
}

// warnOfStepMatchers warns of types in retry_on of steps that no failure of the step can have.
func (r *reader) warnOfStepMatchers(steps []Step) {
	for _, s := range (Section{Steps: steps}).EachStep() {
		if s.Retry == nil || r.defaults != nil &&
			slices.EqualFunc(s.Retry.RetryOn, r.defaults.policy.RetryOn, retry.Matcher.Equal) {
			continue
		}
		for _, m := range s.Retry.RetryOn {
			switch t := retry.Type(m.Name); t {
			case retry.TypeMergeConflict, retry.TypeVerifyFailed, retry.TypeMissingOutput:
				r.warnAt(s.Pos, "retry_on: %s never matches here: it applies to the attempts of an item, not to a step", t)
			case retry.TypeQuota, retry.TypeRefused, retry.TypeIncomplete, retry.TypeInvalidRequest, retry.TypeStalled:
				if s.Shell != nil {
					r.warnAt(s.Pos,
						"retry_on: %s never matches here: it needs the output of an AI coding CLI, in an agent step", t)
				}
			}
		}
	}
}

// warnOfPhases warns of keys that have no effect in phases that run once.
func (r *reader) warnOfPhases() {
	r.warnOfIdleBreakers(r.w.Commands)
	r.warnOfStepMatchers(r.w.Commands)
	if r.w.Map != nil {
		r.warnOfStepMatchers(r.w.Map.AgentTemplate)
		r.warnOfItemMatchers(r.w.ErrorPolicy)
		r.warnOfRate()
	}
	for _, steps := range r.w.Handlers {
		r.warnOfStepMatchers(steps)
	}
	for name, p := range map[string]*Phase{"setup": r.w.Setup, "reduce": r.w.Reduce, "merge": r.w.Merge} {
		if p == nil {
			continue
		}
		r.warnOfIdleBreakers(p.Commands)
		r.warnOfStepMatchers(p.Commands)
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
			r.warn(r.breakers[s.Pos], "circuit_breaker has no effect: failure_threshold is %d, and this step has at most %d attempts", threshold, runs)
		}
	}
}

// warnOfAgentLimit warns of an agent timeout that is too short for the steps. phase and config are the blocks
// of the map and of its timeout_config; they can be nil.
func (r *reader) warnOfAgentLimit(m *Map, phase, config *block) {
	for _, b := range []*block{phase, config} {
		if b == nil || !b.has("agent_timeout_secs") || m.AgentLimit().Value == 0 {
			continue
		}
		e, limit := b.written["agent_timeout_secs"], m.AgentLimit().Value
		r.warnOfWaits(e, limit, "an agent", m.AgentTemplate)
		for i, s := range m.AgentTemplate {
			if s.Timeout > limit {
				r.warn(e.value, "%s: %s has a timeout of %s, which is longer than this limit of the whole agent",
					e.name, s.Label(i), duration.Format(s.Timeout))
			}
		}
	}
}

// warnOfWaits warns of a timeout that is no longer than the retry waits of its steps.
func (r *reader) warnOfWaits(e entry, timeout time.Duration, what string, steps []Step) {
	if waits := MaxRetryWait(steps); timeout > 0 && waits >= timeout {
		r.warn(e.value, "%s: retries of %s may wait %s in total, as long as this timeout or longer",
			e.name, what, duration.Format(waits))
	}
}
