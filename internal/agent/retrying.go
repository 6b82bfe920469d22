package agent

import (
	"context"
	"math/rand/v2"
	"time"

	"prodigy/internal/breaker"
	"prodigy/internal/events"
	"prodigy/internal/retry"
)

// ended is how a step came to its end.
type ended struct {
	result   result   // the step's own, or that of its fallback
	handler  *result  // of the last step of its handler; nil: there was none, or the step ran once more after it
	failure  *Failure // nil: it succeeded, or is forgiven
	attempts int
	reason   retry.Reason // why there is no further try after the failure
	told     bool         // what result holds has been shown
}

// step runs st: its tries, and what follows when they are used up.
func (r *run) step(ctx context.Context, s *scope, st *step) (ended, error) {
	wanted, err := st.wanted(s)
	if err != nil {
		return r.afterwards(ctx, s, st, ended{result: notRun, failure: templateFailure(st, err), attempts: 1, reason: retry.Permanent})
	}
	if !wanted {
		return r.skip(s, st), nil
	}
	delete(r.heads, st)
	end, err := r.tries(ctx, s, st)
	if err != nil {
		return ended{}, err
	}
	s.record(st, end.result)
	if end.failure == nil {
		return r.follow(ctx, s, st, end)
	}
	return r.afterwards(ctx, s, st, end)
}

// tries runs st until it succeeds or there is no further try.
func (r *run) tries(ctx context.Context, s *scope, st *step) (ended, error) {
	state := r.resumed(st)
	if left := r.left(state, time.Now()); left > 0 {
		if err := r.pause(ctx, left); err != nil {
			return ended{}, err
		}
	}
	var before *ended // the last try that ran
	var rnd *rand.Rand
	for {
		res, failure, err := r.try(ctx, s, st)
		if err != nil {
			return ended{}, err
		}
		if failure == nil {
			return ended{result: res, attempts: state.Attempts + 1}, nil
		}
		if before != nil && failure.Type == retry.TypeCircuitOpen {
			return before.refused(failure.Message), nil
		}
		if rnd == nil {
			rnd = retry.NewRand(r.x.Seed, r.a.ItemID, st.label)
		}
		end, d, err := r.decide(ctx, st, state, res, failure, rnd)
		if err != nil {
			return ended{}, err
		}
		if !d.Retry {
			return end, nil
		}
		r.emit(r.retrying(st, failure, d))
		if err := r.pause(ctx, d.Delay); err != nil {
			return ended{}, err
		}
		before, state = &end, d.State
	}
}

// decide asks the policy of st, and its breaker: when that will still be open after the delay, there is nothing to wait for.
func (r *run) decide(ctx context.Context, st *step, state retry.State, res result, failure *Failure, rnd *rand.Rand) (ended, retry.Decision, error) {
	now := time.Now()
	d := st.policy().Next(state, failure.Failure, now, rnd)
	failure.Type = d.Type
	end := ended{result: res, failure: failure, attempts: d.State.Attempts, reason: d.Reason}
	if d.Reason == retry.Budget {
		failure.Message = "retry budget exhausted: " + failure.Message
	}
	if !d.Retry {
		return end, d, nil
	}
	b, guarded := r.breaker(st)
	if !guarded {
		return end, d, nil
	}
	refusal, err := r.x.host.StepRefusal(ctx, b, d.Delay)
	if refusal != "" {
		d.Retry = false
		return end.refused(refusal), d, nil
	}
	return end, d, err
}

// breaker returns the circuit breaker of st, if it has one.
func (r *run) breaker(st *step) (b StepBreaker, ok bool) {
	c := st.policy().CircuitBreaker
	if c == nil {
		return StepBreaker{}, false
	}
	return StepBreaker{JobID: r.a.JobID, Phase: r.a.Phase, Step: st.label, Nth: st.nth, Config: *c}, true
}

// refused returns the end of a step whose retrying a breaker ended: a refusal, with the evidence of the last try.
func (e ended) refused(refusal string) ended {
	failure := *e.failure
	failure.Type = retry.TypeCircuitOpen
	failure.Message = refusal + "; the last try: " + failure.Message
	e.failure, e.reason = &failure, retry.CircuitOpen
	return e
}

// try runs st once, when its breaker lets it. A refusal is a failure of type circuit_open.
func (r *run) try(ctx context.Context, s *scope, st *step) (result, *Failure, error) {
	if ctx.Err() != nil {
		return notRun, nil, context.Cause(ctx)
	}
	b, failure, err := r.bind(s, st, st.command)
	if err != nil || failure != nil {
		return notRun, failure, err
	}
	defer b.scratch.remove()
	gate, guarded := r.breaker(st)
	var ticket breaker.Ticket
	if guarded {
		var refusal string
		if ticket, refusal, err = r.x.host.AdmitStep(ctx, gate); err != nil {
			return notRun, nil, err
		}
		if refusal != "" {
			return notRun, &Failure{Step: st.label, Failure: retry.Failure{Type: retry.TypeCircuitOpen, Message: refusal, ExitCode: -1}}, nil
		}
	}
	res, failure, err := r.validated(ctx, s, st, b)
	switch {
	case err != nil:
		if guarded {
			r.x.host.ReleaseStep(gate, ticket)
		}
		return notRun, nil, err
	case guarded:
		r.x.host.ReportStep(gate, ticket, failure == nil)
	}
	return res, failure, nil
}

// resumed returns what retrying of st had used up before a resume; nothing for any other step. An item begins again at its first
// step, the other phases go on after the last one that is done.
func (r *run) resumed(st *step) retry.State {
	e := r.a.Retrying
	if e == nil || st.label != e.Step || (r.a.Phase != phaseMap && st.position != len(r.a.Done)) {
		return retry.State{}
	}
	s := retry.State{
		Attempts: e.Attempt, Waited: time.Duration(e.WaitedMS), Previous: time.Duration(e.DelayMS), Resumed: true,
	}
	if e.BudgetExpiresAt != nil {
		s.ExpiresAt = *e.BudgetExpiresAt
	}
	return s
}

// left returns how much of the wait before a try is left after a resume: no more than all of it, also when the clock has been set back.
func (r *run) left(s retry.State, now time.Time) time.Duration {
	if !s.Resumed {
		return 0
	}
	return min(r.a.Due.Sub(now), s.Previous)
}

func (r *run) retrying(st *step, f *Failure, d retry.Decision) events.StepRetrying {
	e := events.StepRetrying{
		ItemID: r.a.ItemID, Step: st.label, Attempt: d.State.Attempts, ErrorType: d.Type, Error: f.Message, Matched: d.Matched,
		ComputedDelayMS: events.Millis(d.Computed), DelayMS: events.Millis(d.Delay), WaitedMS: events.Millis(d.State.Waited),
	}
	if st.policy().Budget > 0 {
		left, expires := events.Millis(d.BudgetLeft), d.State.ExpiresAt
		e.BudgetLeftMS, e.BudgetExpiresAt = &left, &expires
	}
	return e
}

func (r *run) pause(ctx context.Context, d time.Duration) error {
	slot, err := r.x.host.Pause(ctx, r.a, d, r.stays)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil {
		r.a.Worker = slot
	}
	return err
}
