package agent

import (
	"prodigy/internal/check"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

// policy returns the retry policy of the step; without one, it is never retried.
func (s *step) policy() retry.Policy {
	if s.Retry == nil {
		return retry.Policy{}
	}
	return *s.Retry
}

// maxPlans limits the plans in memory: an Executor may serve many jobs, one after another.
const maxPlans = 64

func (ps *plans) of(a *Attempt) *plan {
	if a.Spec == "" {
		return new(compiler).plan(a)
	}
	key := planKey{job: a.JobID, phase: a.Phase, spec: a.Spec}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.made[key]
	if p == nil {
		if ps.made == nil || len(ps.made) >= maxPlans {
			ps.made = make(map[planKey]*plan)
		}
		p = new(compiler).plan(a)
		ps.made[key] = p
	}
	return p
}

func (c *compiler) plan(a *Attempt) *plan {
	names := namesOf(a)
	p := &plan{env: c.env(nil, a.Env, variableNames(a))}
	p.steps, names = c.list(a.Steps, names, "")
	p.handler, _ = c.list(a.Handler, withFailure(names), "on_item_failure/")
	p.itemFile = c.itemFile
	return p
}

// list compiles steps that run one after another. n are the names that the first of them sees; it returns those
// after the last.
func (c *compiler) list(steps []workflow.Step, n scopeNames, prefix string) ([]*step, scopeNames) {
	compiled := make([]*step, len(steps))
	var later []string
	for i := range steps {
		later = append(later, steps[i].ID, steps[i].Capture)
	}
	n = n.Before(later)
	for i := range steps {
		compiled[i] = c.step(&steps[i], i, n, prefix)
		n = namesAfter(n, &steps[i])
	}
	return compiled, n
}

func (c *compiler) step(w *workflow.Step, position int, n scopeNames, prefix string) *step {
	s := &step{Step: w, label: prefix + w.Label(position), kind: w.Kind(), position: position}
	if w.Rate != nil && w.Rate.Per != nil {
		s.rateKey, _ = Keys(*w.Rate.Per) // Check has refused a wrong one
	}
	c.valueName(w, "capture", w.Capture)
	if w.When != nil {
		s.when = c.condition(s, n)
	}
	s.env = c.env(s, w.Env, n)

	inner := withVars(n, w.Env)
	build := kinds()[s.kind]
	if build == nil {
		panic("BUG: a step of unknown kind " + s.kind)
	}
	s.command = build(c, s, inner)
	if w.WorkingDir != nil {
		s.dir = c.plain(s, *w.WorkingDir, inner)
	}
	if w.OutputFile != nil {
		if path := c.plain(s, *w.OutputFile, inner); path != nil {
			s.output = &outputFile{path: path, head: path.Before(func(name string) bool { return isData(inner, name) })}
		}
	}
	if w.Validate != nil {
		s.validate = c.validation(s, inner)
	}

	after := namesAfter(n, w)
	s.onSuccess, _ = c.list(w.OnSuccess, after, s.label+"/")
	s.onCode = make(map[int][]*step, len(w.OnExitCode))
	for code, steps := range check.ByKey(w.OnExitCode) {
		names := after
		if code != 0 {
			names = withFailure(after)
		}
		s.onCode[code], _ = c.list(steps, names, s.label+"/")
	}
	if w.OnFailure != nil {
		s.onFailure, _ = c.list(w.OnFailure.Steps, withFailure(after), s.label+"/")
	}
	policy := s.policy()
	if policy.OnFailure.Kind == retry.Fallback {
		s.fallback = c.command(s, nil, policy.OnFailure.Command, s.anywhere, withFailure(namesAfter(inner, w)))
	}
	if after := policy.RetryAfter; after != nil && after.File != "" {
		s.after = c.plain(s, workflow.Text{Value: after.File, Pos: s.Pos}, inner)
	}
	if policy.CircuitBreaker != nil {
		if c.breakers == nil {
			c.breakers = make(map[string]int)
		}
		s.nth = c.breakers[s.label]
		c.breakers[s.label]++
	}
	return s
}
