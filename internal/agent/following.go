package agent

import (
	"context"
	"strconv"

	"prodigy/internal/events"
)

// follow runs what is to follow a step that has succeeded: the steps for its exit code, then those of on_success. When one of them
// fails, the step has failed. What they leave is not seen outside, and the step keeps its own output.
func (r *run) follow(ctx context.Context, s *scope, st *step, end ended) (ended, error) {
	for _, list := range [][]*step{st.onCode[0], st.success} {
		if len(list) == 0 {
			continue
		}
		r.tell(s, st, &end)
		failure, err := r.list(ctx, s.inside(), list)
		if err != nil {
			return ended{}, err
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

// tell shows what a step has printed, when others follow it or it follows another itself; all other steps are shown when they are
// completed. Of items nothing is shown.
func (r *run) tell(s *scope, st *step, end *ended) {
	output := end.result.shown().output
	if r.a.Phase == phaseMap || s.unshown || end.told || output == "" {
		return
	}
	r.emit(events.StepPrinted{Phase: r.a.Phase, Step: st.label, Output: output})
	end.told = true
}

// exitSteps returns the steps for the exit code of a failure. A command that did not exit has none.
func (st *step) exitSteps(f *Failure) []*step {
	if f.ExitCode <= 0 {
		return nil
	}
	return st.onCode[f.ExitCode]
}

// mend runs the steps for the exit code of a failed step. Their success forgives the step; their failure leaves it to what else the
// step says about failures.
func (r *run) mend(ctx context.Context, s *scope, st *step, end ended) (ended, error) {
	r.tell(s, st, &end)
	failed := end
	inner := s.failing(&failed)
	failure, err := r.list(ctx, inner, st.exitSteps(end.failure))
	if err != nil {
		return ended{}, err
	}
	end.handler = new(inner.results[last])
	if failure == nil {
		end.failure = nil
		return end, nil
	}
	f := *end.failure
	f.Message += "; on_exit_code " + strconv.Itoa(f.ExitCode) + ": " + failure.Message
	end.failure = &f
	return end, nil
}

// skip passes over a step whose condition is not met. Its own names stand for nothing then; the last step is the one before it.
func (r *run) skip(s *scope, st *step) ended {
	r.emit(events.StepSkipped{Phase: r.a.Phase, ItemID: r.a.ItemID, Step: st.label, When: st.When.Value})
	res := result{code: -1, skipped: true}
	s.set(res, st.ID, st.Capture)
	return ended{result: res}
}
