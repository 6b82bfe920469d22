package mapreduce

import (
	"fmt"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/workflow"
)

// limits returns the limits in time of the agents of the map phase.
func (j *job) limits() (agent.Limits, error) {
	m := j.workflow.Map
	limit, err := j.config.limit(j.workflow, "agent_timeout_secs", m.AgentLimit())
	return agent.Limits{Agent: limit, Cleanup: m.Timeouts.Cleanup, SkipHandlerOnTimeout: m.Timeouts.Action != ""}, err
}

// limit returns what a limit of a workflow is in this run: some stand in variables of its env or of the environment.
func (c Config) limit(w *workflow.Workflow, key string, limit workflow.SecondsOrVar) (time.Duration, error) {
	if limit.Var == "" {
		return limit.Value, nil
	}
	text, ok := lookup(c, w, limit.Var)
	if !ok {
		return 0, fmt.Errorf("%s: the variable %s is not set", key, limit.Var)
	}
	d, err := workflow.ParseSeconds(text)
	if err != nil {
		return 0, fmt.Errorf("%s: the variable %s: %w", key, limit.Var, err)
	}
	return d, nil
}

// checkLimits reports limits in time that stand in variables and cannot be read.
func checkLimits(c Config, w *workflow.Workflow) []workflow.Problem {
	limits := []namedLimit{{"agent_timeout_secs", w.Map.AgentLimit()}}
	for _, p := range []*workflow.Phase{w.Setup, w.Reduce, w.Merge} {
		if p != nil {
			limits = append(limits, namedLimit{"timeout", p.Timeout})
		}
	}
	var problems []workflow.Problem
	for _, l := range limits {
		if _, err := c.limit(w, l.key, l.limit); err != nil {
			problems = append(problems, problemAt(w, l.limit.Pos, err.Error()))
		}
	}
	return problems
}

type namedLimit struct {
	key   string
	limit workflow.SecondsOrVar
}
