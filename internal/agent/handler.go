package agent

import (
	"context"

	"prodigy/internal/events"
	"prodigy/internal/retry"
)

// What follows when the tries of a step are used up, as StepFailed tells it.
const (
	actionStop     = "stop"
	actionContinue = "continue"
	actionFallback = "fallback"
	actionHandler  = "handler"
)

// action returns what follows when the tries of s are used up.
func (s *step) action() string {
	kind := s.policy().OnFailure.Kind
	switch {
	case s.OnFailure != nil:
		return actionHandler
	case kind == retry.Fallback:
		return actionFallback
	case kind == retry.Continue || s.AllowFailure:
		return actionContinue
	}
	return actionStop
}

// afterwards does what the step says should follow its failure, and returns how the step ends by that.
func (r *run) afterwards(ctx context.Context, s *scope, st *step, end ended) (ended, error) {
	var err error
	if len(st.exitSteps(end.failure)) > 0 {
		r.emit(r.stepFailed(st, end, actionHandler))
		if end, err = r.mend(ctx, s, st, end); err != nil || end.failure == nil {
			return end, err
		}
	}
	action := st.action()
	r.emit(r.stepFailed(st, end, action))
	switch action {
	case actionHandler:
		end, err = r.rounds(ctx, s, st, end)
	case actionFallback:
		end, err = r.fallback(ctx, s, st, end)
	case actionContinue:
		end.failure = nil
	}
	if st.AllowFailure {
		end.failure = nil
	}
	return end, err
}

func (r *run) stepFailed(st *step, end ended, action string) events.StepFailed {
	e := events.StepFailed{
		ItemID: r.a.ItemID, Step: st.label, Attempts: end.attempts, Reason: end.reason, Action: action,
		Error: end.failure.Message, ErrorType: end.failure.Type,
	}
	if code := end.failure.ExitCode; code >= 0 {
		e.ExitCode = &code
	}
	if action != actionStop || r.a.Phase != phaseMap {
		e.StdoutTail, e.StderrTail = end.failure.Stdout, end.failure.Stderr
	}
	return e
}

// fallback runs the fallback command once, past the breaker. Its success is the step's, and so is its output.
func (r *run) fallback(ctx context.Context, s *scope, st *step, end ended) (ended, error) {
	if ctx.Err() != nil {
		return ended{}, context.Cause(ctx)
	}
	b, failure, err := r.bind(s.failing(&end), st, st.fallback)
	if err != nil {
		return ended{}, err
	}
	var res result
	if failure == nil {
		defer b.scratch.remove()
		res, failure, err = r.launch(ctx, st, b)
	}
	if err != nil {
		return ended{}, err
	}
	if failure != nil {
		end.failure.Message += "; fallback: " + failure.Message
		return end, nil
	}
	s.record(st, res)
	end.result, end.failure, end.told = res, nil, false
	return r.follow(ctx, s, st, end)
}

// rounds runs the handler, and after it the step once more as often as the handler allows. Without such rounds the
// handler's success is enough, unless the workflow says that it is not. After a handler that failed, nothing is mended
// and the step is not run again in that round.
func (r *run) rounds(ctx context.Context, s *scope, st *step, end ended) (ended, error) {
	var unhandled *Failure // of the handler in the last round
	if st.OnFailure.MaxAttempts == 0 {
		r.tell(s, st, &end)
	}
	for range max(1, st.OnFailure.MaxAttempts) {
		failed := end
		inner := s.failing(&failed)
		var err error
		if unhandled, err = r.list(ctx, inner, st.handler); err != nil {
			return ended{}, err
		}
		end.handler = new(inner.results[last])
		if unhandled != nil || st.OnFailure.MaxAttempts == 0 {
			continue
		}
		end, err = r.again(ctx, s, st, end)
		if err != nil {
			return ended{}, err
		}
		if end.failure == nil {
			return r.follow(ctx, s, st, end)
		}
	}
	switch {
	case unhandled != nil:
		end.failure.Message += "; on_failure: " + unhandled.Message
	case !st.OnFailure.FailWorkflow:
		end.failure = nil
	}
	return end, nil
}

// again runs st once more after its handler.
func (r *run) again(ctx context.Context, s *scope, st *step, end ended) (ended, error) {
	res, failure, err := r.try(ctx, s, st)
	if err != nil {
		return ended{}, err
	}
	end.result, end.failure, end.handler, end.told = res, failure, nil, false
	end.attempts++
	if failure != nil {
		failure.Type = retry.Classify(failure.Failure)
	}
	s.record(st, res)
	return end, nil
}
