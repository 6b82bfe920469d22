package mapreduce

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/gitspace"
	"prodigy/internal/jobs"
	"prodigy/internal/workflow"
)

// runPhase runs the steps of a phase that runs once, from its first step that is not done. A standard workflow
// is one phase without a name.
func (j *owner) runPhase(ctx context.Context, name string, p *workflow.Phase, m *agent.MapResult) (Result, error) {
	known := j.Phase(name)
	if p == nil || known.Completed {
		return Result{State: jobs.Completed}, nil
	}
	if v, err := j.whileHeld(ctx); err != nil || v != nil { // somebody asked for a stop, or a pause, while the phase before it ran
		return *cmp.Or(v, &Result{}), err
	}
	if name != "" && !known.Started {
		j.Record(events.PhaseStarted{Phase: name})
	}
	a := j.phaseAttempt(name, p, m)
	var err error
	if a.Limits.Agent, err = j.config.limit(j.workflow, "timeout", p.Timeout); err != nil {
		return Result{}, err
	}
	end, halted, err := j.runAlone(ctx, a)
	if err != nil {
		return Result{}, err
	}
	switch f := end.Failure; {
	case halted != nil && (end.err != nil || j.printed.err != nil):
		return *halted, nil
	case j.stopped(end.err):
		return Result{State: jobs.Stopped, Reason: end.err.Error()}, nil
	case end.err != nil:
		v := failed(end.err)
		v.Reason = inPhase(name, v.Reason)
		return v, nil
	case f != nil:
		return Result{State: jobs.Failed, Reason: inPhase(name, f.Message), Failure: f}, nil
	}
	if name != "" {
		j.recordPhaseCompleted(name, end.Commit)
	}
	return Result{State: jobs.Completed, head: end.Commit}, nil
}

func (j *owner) phaseAttempt(name string, p *workflow.Phase, m *agent.MapResult) agent.Attempt {
	a := j.attempt(name)
	a.ID = j.attemptID(name, 1)
	a.CorrelationID = j.place.ID
	a.Number, a.Worker = 1, 1
	a.Steps = p.Commands
	a.Done = j.Phase(name).Steps
	a.Map, a.Base = m, j.Head
	if j.space != nil && (name == "reduce" || name == "merge") {
		a.Merge = &agent.MergeResult{
			SourceBranch: gitspace.Config{JobID: a.JobID}.ResultBranch(),
			TargetBranch: j.TargetBranch,
		}
	}
	a.Outputs = j.printed.granted()
	if j.config.Trace {
		a.Trace = j.span().Run(j.runSeq).Phase(name).String()
	}
	a.SetSpec()
	j.TakeUp(&a, "")
	return a
}

// runAlone runs one attempt that is about no item. The owner stays at its post meanwhile: for events, a stop,
// and the log's own failure.
func (j *owner) runAlone(ctx context.Context, a agent.Attempt) (end attemptEnd, halted *Result, err error) {
	p := j.poolOfNone(ctx)
	p.runners.running = 1
	defer close(p.runners.idle)
	defer p.runners.kill(nil)
	p.startWorker(a)
	p.run(ctx)
	return *p.single.end, p.halted, j.Log.Err()
}

// mapResult returns what ${map.…} stands for. The results are made if they are not there as the log has them.
func (j *owner) mapResult() (*agent.MapResult, error) {
	if err := j.MakeResults(); err != nil {
		return nil, err
	}
	m := j.Policy.Metrics()
	missing := ""
	if namesAny(slices.Concat(stepsOf(j.workflow.Reduce), stepsOf(j.workflow.Merge)), "missing_file") {
		missing = j.place.MissingFile()
		if err := j.WriteMissing(missing); err != nil {
			return nil, fmt.Errorf("list items without success: %w", err)
		}
	}
	return &agent.MapResult{
		Total: m.TotalItems, Successful: m.Successful, Failed: m.Failed, Skipped: m.Skipped, FailureRate: m.FailureRate,
		Duration: j.Phase("map").Duration, ResultsFile: j.place.ResultsFile(), MissingFile: missing,
		Spent: j.Spent.Map,
	}, nil
}
