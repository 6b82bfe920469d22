package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"prodigy/internal/duration"
	"prodigy/internal/events"
	"prodigy/internal/rawjson"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

// Execute runs the steps of a. A failed step is an Outcome. The error is for a stop, and then it is
// context.Cause(ctx), or for what prodigy itself could not do.
func (x *Executor) Execute(ctx context.Context, a Attempt) (Outcome, error) {
	began := time.Now()
	r := &run{x: x, a: &a, plan: x.plans.of(&a), stop: ctx, commands: new(atomic.Int32)}
	r.scratch = scratch{run: r}
	defer r.scratch.remove()
	s, err := r.begin()
	if err != nil {
		return Outcome{}, err
	}
	end, err := r.runAttempt(ctx, s)
	if err != nil {
		return Outcome{}, err
	}
	res := s.results[last] // of the last step that ran, here or before a resume
	if end.failure == nil && end.handler != nil {
		res = *end.handler // a step that was forgiven ended with its handler
	}
	if end.failure != nil {
		end.failure.Message = r.x.Mask.Text(end.failure.Message)
	}
	o := Outcome{Failure: end.failure, ExitCode: res.code}
	o.Output, o.Captured = res.shown().Output, r.captured
	if f := end.failure; f != nil && len(r.plan.handler) > 0 && !r.withoutHandler(f) {
		failure, err := r.runSteps(ctx, s.failing(end), r.plan.handler)
		if err != nil {
			return Outcome{}, err
		}
		o.Handled = failure == nil
	}
	o.Duration = time.Since(began).Round(time.Microsecond) // what the log keeps of it
	return o, nil
}

// withoutHandler reports whether what follows a failure is decided without the handler: it is about what failed for
// good.
func (r *run) withoutHandler(f *Failure) bool {
	if f.TimedOut && r.a.Limits.SkipHandlerOnTimeout {
		return true
	}
	n := r.a.Again
	if n == nil {
		return false
	}
	rnd := retry.NewRand(r.x.Seed, r.a.ItemID, strconv.Itoa(r.a.Number)) // as the policy of the job draws
	return n.Policy.Next(n.State, f.Failure, time.Now(), rnd).Retry
}

// Holds returns none: commands on this machine are ended when their run dies, and before it is resumed.
func (x *Executor) Holds(context.Context, []string) ([]string, error) { return nil, nil }

// begin makes what all steps of the attempt share, and returns the scope before the first of them.
func (r *run) begin() (*scope, error) {
	var itemFile string
	if r.a.Phase == phaseMap && (r.plan.itemFile || len(r.a.Item) > maxItemVar) {
		var err error
		if itemFile, err = r.scratch.add("item-*.json", string(r.a.Item)); err != nil {
			return nil, err
		}
	}
	r.vars, r.places = r.a.variables(itemFile), r.a.places(r.x.Places)
	var secrets []string // they override all other variables, which see them
	for _, name := range r.a.Secrets {
		value, err := r.secret(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		secrets = append(secrets, name+"="+value)
	}
	r.env, r.envErr = r.bindEnv(&scope{run: r, env: secrets, scratch: &r.scratch}, r.plan.env)

	s := &scope{run: r, env: r.env}
	for _, e := range r.a.Earlier {
		s.set(r.completed(e), e.Capture)
	}
	for _, e := range r.a.Done {
		if res := r.completed(e); res.skipped {
			s.set(res, e.ID, e.Capture)
		} else {
			s.leave(res, e.Kind, e.ID, res, e.Capture)
		}
	}
	return s, nil
}

// runAttempt runs the steps within the time limit of the attempt, if it has one.
func (r *run) runAttempt(ctx context.Context, s *scope) (stepEnd, error) {
	limit := r.a.Limits.Agent
	ctx, r.limit = withTimeLimit(ctx, limit, "the attempt")
	defer r.limit.cancel(nil)
	end, err := r.runAll(ctx, s)
	if !errors.Is(err, r.limit) {
		return end, err
	}
	failure := cmp.Or(r.cut, &Failure{Step: r.current, Failure: retry.Failure{TimedOut: true, ExitCode: -1}})
	failure.Type = retry.TypeTimeout
	failure.Message = fmt.Sprintf("the agent timed out after %s", duration.Format(limit))
	if r.a.Phase != phaseMap {
		failure.Step = "" // there is no record of its failure
		failure.Message = fmt.Sprintf(
			"the %s phase timed out after %s, in step %s", r.a.Phase, duration.Format(limit), r.current,
		)
	}
	return stepEnd{failure: failure}, nil
}

// runAll runs the steps of the attempt that are not done yet. It returns how the last one that ran ended: the
// others have not failed.
func (r *run) runAll(ctx context.Context, s *scope) (end stepEnd, err error) {
	steps := r.plan.steps
	for _, st := range steps[min(len(r.a.Done), len(steps)):] {
		r.current, r.position = st.label, st.position
		if r.a.Phase == phaseMap {
			e := events.AgentProgress{ItemID: r.a.ItemID, Step: st.label, StepIndex: st.position, Steps: len(steps)}
			r.x.host.Progress(r.a, e)
			if r.x.LogSteps {
				r.emit(e)
			}
		} else if err := r.x.host.Stopping(); err != nil {
			return stepEnd{}, err
		}
		next, err := r.runStep(ctx, s, st)
		if err != nil {
			return stepEnd{}, err
		}
		r.capture(st, next)
		if next.failure != nil {
			return next, nil
		}
		if r.a.Phase != phaseMap {
			r.emit(r.stepCompleted(st, next))
		}
		if !next.result.skipped {
			end = next
		}
	}
	return end, nil
}

// capture keeps the output of st for the outcome, when it has a name and has run. JSON of a step that failed
// for good is null.
func (r *run) capture(st *step, end stepEnd) {
	res := end.result.as(st.Format)
	if st.Capture == "" || res.skipped {
		return
	}
	if res.failed && end.failure != nil && st.Format == workflow.FormatJSON {
		res.data = json.RawMessage("null")
	}
	if r.captured == nil {
		r.captured = make(map[string]json.RawMessage)
	}
	r.captured[st.Capture] = res.data
	if res.data == nil {
		r.captured[st.Capture] = rawjson.Of(res.shown().Output)
	}
}

func (r *run) stepCompleted(st *step, end stepEnd) events.StepCompleted {
	res := end.result
	shown := res.shown()
	e := events.StepCompleted{
		Phase: r.a.Phase, Step: st.label, StepIndex: st.position, Kind: st.written(), ID: st.ID, Capture: st.Capture,
		DurationMS: events.Millis(res.duration), ExitCode: res.code, Output: shown.Output, Stderr: shown.Stderr,
		Masked: res.masked != nil, Printed: end.printed,
		CaptureFormat: string(st.Format), Failed: res.failed, Skipped: res.skipped, Validation: res.validation,
		Agent: res.ai,
	}
	if e.Masked {
		r.x.host.KeepUnmasked(r.a, st.position, res.Printed)
	}
	return e
}
