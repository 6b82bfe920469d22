package mapreduce

import (
	"errors"
	"fmt"
	"reflect"

	"prodigy/internal/jobs"
	"prodigy/internal/reuse"
	"prodigy/internal/workflow"
)

// validate checks the replacement, alone and against the recorded workflow whose log it will read, and returns
// it. A nil m returns recorded.
func (m *Replacement) validate(c Config, recorded *workflow.Workflow) (*workflow.Workflow, error) {
	if m == nil {
		return recorded, nil
	}
	w := m.Workflow
	w.Name = recorded.Name
	problems, warnings := findings(c, w)
	if w.Mode != recorded.Mode {
		problems = append(problems, w.ProblemAt(top,
			fmt.Sprintf("the job has mode %s, and this workflow has mode %s: start a new job", recorded.Mode, w.Mode)))
	}
	if !reflect.DeepEqual(w.ErrorPolicy.CircuitBreaker, recorded.ErrorPolicy.CircuitBreaker) {
		problems = append(problems, w.ProblemAt(top,
			"error_policy.circuit_breaker cannot be changed in a job that has started"))
	}
	_, err := asError(w, problems, warnings)
	return w, err
}

// top is the place of what is wrong with a workflow as a whole.
var top = workflow.Pos{Line: 1, Col: 1}

// replaceWorkflow makes the replacement the workflow of the job from now on, unless it differs in work that is done.
func (j *owner) replaceWorkflow(recorded *workflow.Workflow) error {
	m := j.config.Replacement
	if m == nil {
		return nil
	}
	if _, err := asError(j.workflow, j.changedWork(recorded), nil); err != nil {
		return err
	}
	if err := errors.Join(j.newSlots(recorded), j.chooseAgain(recorded)); err != nil {
		return err
	}
	j.meta.WorkflowPath, j.meta.Params = m.Path, paramsOf(j.config.Settings)
	redacted := m.Workflow.Redact(m.Source)
	j.meta.Shown = shownText(j.config.Settings, redacted)
	if err := j.place.ReplaceWorkflow(&j.meta, redacted); err != nil {
		return err
	}
	j.notice("the workflow of the job is now " + m.Path)
	return nil
}

// newSlots lets a max_parallel count that is another than the recorded one; not against the flag.
func (j *owner) newSlots(recorded *workflow.Workflow) error {
	c := j.config
	c.MaxParallel = 0
	open := OpenSlots(c, j.workflow)
	if j.workflow.Map == nil {
		return nil
	}
	now, before := j.workflow.Map.MaxParallel, recorded.Map.MaxParallel
	if now.Value == before.Value && now.Var == before.Var && open == OpenSlots(c, recorded) {
		return nil
	}
	slots, err := maxParallel(c, j.workflow)
	if err != nil {
		return err
	}
	j.meta.MaxParallel, j.meta.OpenSlots = slots, open
	if j.config.MaxParallel == 0 {
		j.parallel, j.elastic = slots, open && c.OnFleet
		if j.serial = slots == 1 && !j.elastic; j.elastic {
			j.parallel = 1 // until workers are heard of
		}
	}
	j.rescaled = j.Slots > 0
	return nil
}

// changedWork reports where the replacement differs from the recorded workflow in work that is done.
func (j *owner) changedWork(recorded *workflow.Workflow) []workflow.Problem {
	w := j.workflow
	problems := j.changedSteps("", w.Commands, recorded.Commands)
	problems = append(problems, j.changedSteps("setup", stepsOf(w.Setup), stepsOf(recorded.Setup))...)
	if j.Ended != jobs.Completed { // else they begin anew when they are run again
		problems = append(problems, j.changedSteps("reduce", stepsOf(w.Reduce), stepsOf(recorded.Reduce))...)
		problems = append(problems, j.changedSteps("merge", stepsOf(w.Merge), stepsOf(recorded.Merge))...)
	}
	if w.Map == nil || j.unchosen(recorded) {
		return problems
	}
	for _, c := range w.Map.Selection(recorded.Map) {
		problems = append(problems, w.ProblemAt(c.At,
			c.Key+" cannot be changed after items were selected; start a new job"))
	}
	return problems
}

// unchosen reports whether no item of the job counts yet. With a key none does before all are selected.
func (j *owner) unchosen(recorded *workflow.Workflow) bool {
	return !j.Selected && (j.Store.Len() == 0 || recorded.Map.Key.Value != "")
}

// chooseAgain forgets items that do not count: the replacement may choose others.
func (j *owner) chooseAgain(recorded *workflow.Workflow) error {
	if j.workflow.Map == nil || !j.unchosen(recorded) {
		return nil
	}
	if in := j.workflow.Map.Input; in.Job != recorded.Map.Input.Job || in.Select != recorded.Map.Input.Select {
		c := j.config
		c.Dir = j.meta.Dir
		var err error
		if j.meta.Input, err = reuse.ChosenInput(c.Reuse(), j.workflow); err != nil {
			return err
		}
	}
	return j.Store.Clear()
}

func stepsOf(p *workflow.Phase) []workflow.Step {
	if p == nil {
		return nil
	}
	return p.Commands
}

// changedSteps reports steps of a phase that are done and would be different now. A phase that is done gets no
// more steps either.
func (j *owner) changedSteps(phase string, now, before []workflow.Step) []workflow.Problem {
	p := j.Phase(phase)
	done := len(p.Steps)
	if p.Completed {
		done = len(before)
	}
	var problems []workflow.Problem
	for i, s := range now[:min(done, len(now))] {
		if !workflow.EqualSteps(s, before[i]) {
			problems = append(problems, j.workflow.ProblemAt(s.Pos,
				"step "+s.Label(i)+" cannot be changed: it has already finished"))
		}
	}
	switch {
	case len(now) < done:
		problems = append(problems, j.workflow.ProblemAt(top,
			fmt.Sprintf("%sa finished step of the job is missing: %s", inPhase(phase, ""),
				before[len(now)].Label(len(now)))))
	case p.Completed && len(now) > done:
		problems = append(problems, j.workflow.ProblemAt(now[done].Pos,
			"step "+now[done].Label(done)+" would never run, because the job has finished "+phase))
	}
	return problems
}
