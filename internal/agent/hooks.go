package agent

import (
	"context"
	"strconv"

	"prodigy/internal/events"
	"prodigy/internal/retry"
)

// runHooks runs what follows a step that has succeeded: the steps for exit code 0, then those of on_success.
// When one of them fails, the step has failed. Their results are not seen outside, and the step keeps its own
// output.
func (r *run) runHooks(ctx context.Context, s *scope, st *step, end stepEnd) (stepEnd, error) {
	for _, list := range [][]*step{st.onCode[0], st.onSuccess} {
		if len(list) == 0 {
			continue
		}
		r.showOutput(s, st, &end)
		failure, err := r.runSteps(ctx, s.hooks(end.result), list)
		if err != nil {
			return stepEnd{}, err
		}
		if failure != nil {
			end.failure = failure
			break
		}
	}
	if st.AllowFailure {
		end.failure = nil
	}
	return end, nil
}

// What follows when the tries of a step are used up, as StepFailed has it.
const (
	actionStop     = "stop"
	actionContinue = "continue"
	actionFallback = "fallback"
	actionHandler  = "handler"
)

// onStepFailure runs what the step wants after its failure: the steps for its exit code, then its handler or
// fallback, unless it simply continues. It returns how the step ends by that.
func (r *run) onStepFailure(ctx context.Context, s *scope, st *step, end stepEnd) (stepEnd, error) {
	var err error
	if code := end.failure.ExitCode; code > 0 && len(st.onCode[code]) > 0 {
		r.emit(r.stepFailed(st, end, actionHandler))
		if end, err = r.runExitSteps(ctx, s, st, end); err != nil || end.failure == nil {
			return end, err
		}
	}
	action := actionStop
	switch kind := st.policy().OnFailure.Kind; {
	case st.OnFailure != nil:
		action = actionHandler
	case kind == retry.Fallback:
		action = actionFallback
	case kind == retry.Continue || st.AllowFailure:
		action = actionContinue
	}
	r.emit(r.stepFailed(st, end, action))
	switch action {
	case actionHandler:
		end, err = r.runHandler(ctx, s, st, end)
	case actionFallback:
		end, err = r.runFallback(ctx, s, st, end)
	case actionContinue:
		end.failure = nil
	}
	if st.AllowFailure {
		end.failure = nil
	}
	return end, err
}

func (r *run) stepFailed(st *step, end stepEnd, action string) events.StepFailed {
	e := events.StepFailed{
		ItemID: r.a.ItemID, Step: st.label, Attempts: end.attempts, Reason: end.reason, Action: action,
		Error: end.failure.Message, ErrorType: end.failure.Type, Rule: end.failure.Rule,
	}
	if code := end.failure.ExitCode; code >= 0 {
		e.ExitCode = &code
	}
	if action != actionStop || r.a.Phase != phaseMap {
		e.StdoutTail, e.StderrTail = end.failure.Stdout, end.failure.Stderr
	}
	return e
}

// runExitSteps runs the steps for the exit code of a failed step. Their success forgives the step; their
// failure leaves it to what else the step says about failures.
func (r *run) runExitSteps(ctx context.Context, s *scope, st *step, end stepEnd) (stepEnd, error) {
	r.showOutput(s, st, &end)
	code := end.failure.ExitCode
	inner := s.failing(end)
	failure, err := r.runSteps(ctx, inner, st.onCode[code])
	if err != nil {
		return stepEnd{}, err
	}
	end.handler = new(inner.results[last])
	if failure == nil {
		end.failure = nil
		return end, nil
	}
	f := *end.failure
	f.Message += "; on_exit_code " + strconv.Itoa(code) + ": " + failure.Message
	end.failure = &f
	return end, nil
}

// runHandler runs on_failure, and after it the step once more, for as many rounds as max_attempts. Without it,
// the success of the handler is enough, unless fail_workflow is set. When the handler fails, the step is not
// run again in that round.
func (r *run) runHandler(ctx context.Context, s *scope, st *step, end stepEnd) (stepEnd, error) {
	var handlerFailure *Failure // in the last round
	if st.OnFailure.MaxAttempts == 0 {
		r.showOutput(s, st, &end)
	}
	for range max(1, st.OnFailure.MaxAttempts) {
		inner := s.failing(end)
		var err error
		if handlerFailure, err = r.runSteps(ctx, inner, st.onFailure); err != nil {
			return stepEnd{}, err
		}
		end.handler = new(inner.results[last])
		if handlerFailure != nil || st.OnFailure.MaxAttempts == 0 {
			continue
		}

		r.tryNumber = end.attempts + 1
		res, err := r.tryAdmitted(ctx, s, st)
		failure := failureIn(err)
		if err != nil && failure == nil {
			return stepEnd{}, err
		}
		end.result, end.failure, end.handler, end.printed = res, failure, nil, false
		end.attempts++
		s.record(st, res)
		if failure == nil {
			return r.runHooks(ctx, s, st, end)
		}
		failure.Type = retry.Classify(failure.Failure)
	}
	switch {
	case handlerFailure != nil:
		end.failure.Message += "; on_failure: " + handlerFailure.Message
	case !st.OnFailure.FailWorkflow:
		end.failure = nil
	}
	return end, nil
}

// runFallback runs the fallback command once, without asking the breaker. Its success and its output are the step's.
func (r *run) runFallback(ctx context.Context, s *scope, st *step, end stepEnd) (stepEnd, error) {
	if ctx.Err() != nil {
		return stepEnd{}, context.Cause(ctx)
	}
	b, err := r.bind(s.failing(end), st, st.fallback)
	var res result
	if err == nil {
		defer b.scratch.remove()
		r.fallback = true
		res, err = r.runCommand(ctx, st, b)
		r.fallback = false
		err = r.settleOutput(st, b, res, err)
	}
	if failure := failureIn(err); failure != nil {
		end.failure.Message += "; fallback: " + failure.Message
		return end, nil
	}
	if err != nil {
		return stepEnd{}, err
	}
	s.record(st, res)
	res.dir = b.dir
	end.result, end.failure, end.printed = res, nil, false
	return r.runHooks(ctx, s, st, end)
}

// showOutput shows what a step has printed before its hooks run, and what a hook has printed. All other output
// is shown when the step is completed. Of items nothing is shown.
func (r *run) showOutput(s *scope, st *step, end *stepEnd) {
	output := end.result.shown().Output
	if r.a.Phase == phaseMap || s.quiet || end.printed || output == "" {
		return
	}
	r.emit(events.StepPrinted{Phase: r.a.Phase, Step: st.label, Output: output})
	end.printed = true
}
