package mapreduce

import (
	"context"
	"errors"
	"maps"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/process"
	"prodigy/internal/workflow"
)

// runPhase runs the steps of a phase that runs once, from its first step that is not done. A standard workflow is one phase
// without a name.
func (j *job) runPhase(ctx context.Context, name string, p *workflow.Phase, m *agent.MapResult) (runResult, error) {
	known := j.state.phase(name)
	if p == nil || known.Completed {
		return runResult{state: Completed}, nil
	}
	if err := j.stopping(); err != nil { // while the phase before it ran
		return runResult{state: Paused, reason: err.Error()}, nil
	}
	if name != "" && !known.Started {
		j.record(events.PhaseStarted{Phase: name})
	}
	a := j.phaseAttempt(name, p, m)
	var err error
	if a.Limits.Agent, err = j.config.limit(j.workflow, "timeout", p.Timeout); err != nil {
		return runResult{}, err
	}
	end, err := j.runAlone(ctx, a)
	if err != nil {
		return runResult{}, err
	}
	return j.phaseResult(name, end), nil
}

func (j *job) phaseResult(name string, end attemptEnd) runResult {
	switch f := end.outcome.Failure; {
	case j.stopped(end.err):
		return runResult{state: Paused, reason: end.err.Error()}
	case end.err != nil:
		return runResult{state: Failed, reason: inPhase(name, end.err.Error()), cause: end.err}
	case f != nil:
		return runResult{state: Failed, reason: inPhase(name, f.Message), failure: f}
	}
	if name != "" {
		j.recordPhaseCompleted(name)
	}
	return runResult{state: Completed}
}

// recordPhaseCompleted tells how long the runs of the job have worked on the phase.
func (j *job) recordPhaseCompleted(name string) {
	took := j.state.duration(time.Now()) - j.state.phase(name).Began
	j.record(events.PhaseCompleted{Phase: name, DurationMS: events.Millis(took)})
}

func inPhase(name, message string) string {
	if name == "" {
		return message
	}
	return name + ": " + message
}

// stopped tells whether err is of a stop that somebody asked for.
func (j *job) stopped(err error) bool {
	return err != nil && (errors.Is(err, errStopping) || errors.Is(err, process.ErrKill) || errors.Is(err, context.Cause(j.config.Stop)))
}

func (j *job) phaseAttempt(name string, p *workflow.Phase, m *agent.MapResult) agent.Attempt {
	a := j.attempt(name)
	a.ID = j.place.ID + "/" + name + "/1"
	a.CorrelationID = j.place.ID
	a.Number, a.Worker = 1, 1
	a.Steps = p.Commands
	a.Done = j.state.phase(name).Steps
	a.Map = m
	a.SetSpec()
	j.state.retried(&a, "")
	return a
}

// attempt returns what all attempts of a phase have in common. The breakers of its steps go on where the log has them.
func (j *job) attempt(phase string) agent.Attempt {
	j.host.breakers.Continue(phase, maps.Clone(j.state.Circuits[phase]))
	return agent.Attempt{
		JobID: j.place.ID, Workflow: j.workflow.Name, Phase: phase, Dir: j.config.Dir, Env: j.env(),
		Secrets: j.config.Settings.Final, Args: j.config.Settings.Args,
		Earlier: j.earlier(phase),
	}
}

// env returns the variables as they were found, or as they are written when nobody looked.
func (j *job) env() []workflow.EnvVar {
	if s := j.config.Settings; s.Env != nil {
		return s.Env
	}
	return j.workflow.Env
}

// earlier returns the steps of the phases before this one whose output later phases may name.
func (j *job) earlier(phase string) []events.StepCompleted {
	var done []events.StepCompleted
	for _, name := range []string{"setup", "reduce"} {
		if name == phase || (name == "reduce" && phase != "merge") {
			break
		}
		for _, s := range j.state.phase(name).Steps {
			if s.Capture != "" {
				done = append(done, s)
			}
		}
	}
	return done
}

// runAlone runs one attempt and keeps the owner at its post meanwhile: for its events, a stop, and the log's own failure.
func (j *job) runAlone(ctx context.Context, a agent.Attempt) (attemptEnd, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	j.agents.Go(func() error {
		j.execute(ctx, a)
		return nil
	})
	stop, failed := j.config.Stop.Done(), j.log.Failed()
	var grace <-chan time.Time
	for {
		select {
		case m := <-j.inbox:
			if m.done != nil {
				return *m.done, j.log.Err()
			}
			j.record(m.event)
		case <-stop:
			stop, grace = nil, time.After(j.config.Grace)
			j.register.Stopping()
		case <-grace:
			cancel(context.Cause(j.config.Stop))
		case <-failed:
			failed = nil
			cancel(j.log.Err())
		}
	}
}
