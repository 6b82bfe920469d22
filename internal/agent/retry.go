package agent

import (
	"cmp"
	"context"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"prodigy/internal/ai"
	"prodigy/internal/check"
	"prodigy/internal/events"
	"prodigy/internal/process"
	"prodigy/internal/retry"
)

// runSteps runs the steps of a hook and shows what they print. It returns the failure of the one that failed
// for good, or nil.
func (r *run) runSteps(ctx context.Context, s *scope, steps []*step) (*Failure, error) {
	for _, st := range steps {
		end, err := r.runStep(ctx, s, st)
		if err != nil || end.failure != nil {
			return end.failure, err
		}
		r.showOutput(s, st, &end)
	}
	return nil, nil
}

// runStep runs st if its condition is met: its tries, and then its hooks.
func (r *run) runStep(ctx context.Context, s *scope, st *step) (stepEnd, error) {
	if st.when != nil && st.broken == nil { // a step with a text that does not compile fails below
		wanted, err := st.when.holds(s.binding(st))
		if err != nil {
			failure := st.fails(retry.TypeTemplate, err.Error())
			end := stepEnd{result: notRun, failure: failure, attempts: 1, reason: retry.Permanent}
			return r.onStepFailure(ctx, s, st, end)
		}
		if !wanted {
			// Its own names stand for nothing now; the last step is the one before it.
			r.emit(events.StepSkipped{Phase: r.a.Phase, ItemID: r.a.ItemID, Step: st.label, When: st.When.Value})
			res := result{code: -1, skipped: true}
			s.set(res, st.ID, st.Capture)
			return stepEnd{result: res}, nil
		}
	}
	delete(r.heads, st)
	end, err := r.runWithRetry(ctx, s, st)
	if err != nil {
		return stepEnd{}, err
	}
	s.record(st, end.result)
	if end.failure == nil {
		return r.runHooks(ctx, s, st, end)
	}
	return r.onStepFailure(ctx, s, st, end)
}

// runWithRetry tries st until it succeeds or there is no further try.
func (r *run) runWithRetry(ctx context.Context, s *scope, st *step) (stepEnd, error) {
	state := r.resumed(st)
	var before *stepEnd // the last try that ran
	if state.Resumed {
		e := r.a.Retrying // which the run before this one has recorded
		failure := st.fails(e.ErrorType, e.Error)
		failure.Rule = e.Rule
		before = &stepEnd{result: notRun, failure: failure, attempts: e.Attempt}
		// The rest of the wait, and no more than all of it when the clock has been set back.
		left := max(0, min(time.Until(r.a.Due), time.Duration(state.Previous)))
		if st.policy().Expired(state, time.Now().Add(left)) {
			return before.because(retry.Budget, ""), nil
		}
		if left > 0 {
			if err := r.pause(ctx, left); err != nil {
				return stepEnd{}, err
			}
		}
	}
	r.session = r.sessionBefore(s, st)
	var rnd *rand.Rand
	for {
		if st.policy().Expired(state, time.Now()) { // it may have waited for its turn
			return before.because(retry.Budget, ""), nil
		}
		r.tryNumber = state.Attempts + 1
		if err := r.stepTurn(ctx, st); err != nil {
			return stepEnd{}, err
		}
		res, err := r.tryAdmitted(ctx, s, st)
		if err == nil {
			return stepEnd{result: res, attempts: state.Attempts + 1}, nil
		}
		failure := failureIn(err)
		if failure == nil {
			return stepEnd{}, err
		}
		if before != nil && failure.Type == retry.TypeCircuitOpen {
			return before.because(retry.CircuitOpen, failure.Message), nil
		}

		if rnd == nil {
			rnd = retry.NewRand(r.x.Seed, r.a.ItemID, st.label)
		}
		r.heedRetryAfter(s, st, res, failure)
		d := st.policy().Next(state, failure.Failure, time.Now(), rnd)
		failure.Type = d.Type
		end := stepEnd{result: res, failure: failure, attempts: d.State.Attempts, reason: d.Reason}
		if d.Reason == retry.Budget {
			return end.because(retry.Budget, ""), nil
		}
		if !d.Retry {
			return end, nil
		}
		if res.shut > d.Delay { // there is nothing to wait for
			gate, _ := r.breaker(st)
			return end.because(retry.CircuitOpen, gate.open()), nil
		}
		r.emit(r.stepRetrying(st, failure, d))
		if err := r.pause(ctx, d.Delay); err != nil {
			return stepEnd{}, err
		}
		before, state = &end, d.State
	}
}

// tryAdmitted is try for steps that may have to wait for the limit of a plan, or for the budget. A try that
// meets such a limit charges nothing: it is made again when the limit is over. Nor does one that was to
// continue a session that does not exist: the next one begins a session.
func (r *run) tryAdmitted(ctx context.Context, s *scope, st *step) (result, error) {
	ask, is := r.ask(st)
	if !is {
		return r.try(ctx, s, st)
	}
	outer := r.ticket // of the step whose result this one checks, if any
	ask.Inside = outer.ID
	defer func() { r.ticket, r.repeat = outer, 0 }()
	for repeat := 0; ; repeat++ {
		r.repeat = repeat
		ticket, refusal, err := r.admitAgent(ctx, ask)
		if err != nil {
			return notRun, err
		}
		if refusal != nil {
			refusal.Step = st.label
			return notRun, refusal
		}
		r.ticket, r.limitUse = ticket, ai.LimitUse{}
		res, err := r.try(ctx, s, st)
		failure := failureIn(err)
		if err != nil && failure == nil {
			r.x.host.ReleaseAgent(ticket)
			return res, err
		}
		r.session = res.session
		if res.sessionUnknown {
			r.x.host.ReleaseAgent(ticket)
			continue
		}
		again, broken := r.x.host.ReportAgent(r.a, ticket, failure, r.limitUse)
		if broken != nil {
			return res, broken
		}
		if !again {
			return res, err
		}
	}
}

// admitAgent waits until an agent may start. The time limit of the attempt does not run meanwhile.
func (r *run) admitAgent(ctx context.Context, ask AgentAsk) (AgentTicket, *Failure, error) {
	resume := r.limit.suspend()
	slot, ticket, refusal, err := r.x.host.AdmitAgent(ctx, r.a, ask, r.keepSlot)
	resume()
	if ctx.Err() != nil && err == nil && refusal == nil {
		r.x.host.ReleaseAgent(ticket)
	}
	return ticket, refusal, r.waited(ctx, slot, err)
}

// stepTurn waits for a turn of the rate of st, if it has one. The time limit of the attempt does not run meanwhile.
func (r *run) stepTurn(ctx context.Context, st *step) error {
	if st.Rate == nil || r.a.Phase != phaseMap || st.broken != nil || ctx.Err() != nil {
		return nil
	}
	t := StepTurn{Step: st.label, Position: st.position}
	if st.rateKey != nil {
		t.Key = r.x.Mask.Text(st.rateKey(r.a.ItemID, r.a.Item))
	}
	resume := r.limit.suspend()
	slot, err := r.x.host.StepTurn(ctx, r.a, t, r.keepSlot)
	resume()
	return r.waited(ctx, slot, err)
}

// waited notes the slot that the attempt goes on in after it has waited.
func (r *run) waited(ctx context.Context, slot int, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil {
		r.a.Worker = slot
	}
	return err
}

// because returns the end of a step that is not tried again, with the reason in its failure: its retry budget, or the
// refusal of its breaker.
func (e stepEnd) because(reason retry.Reason, refusal string) stepEnd {
	failure := *e.failure
	failure.Message = retry.Headline(reason, failure.Message, refusal)
	if reason == retry.CircuitOpen {
		failure.Type = retry.TypeCircuitOpen
	}
	e.failure, e.reason = &failure, reason
	return e
}

// resumed returns what retrying st had used up before a resume; nothing for any other step. An item begins
// again at its first step, the other phases continue after the last one that is done.
func (r *run) resumed(st *step) retry.State {
	e := r.a.Retrying
	if e == nil || st.label != e.Step || (r.a.Phase != phaseMap && st.position != len(r.a.Done)) {
		return retry.State{}
	}
	s := retry.State{
		Attempts: e.Attempt, Waited: e.WaitedMS, Previous: e.DelayMS, Resumed: true,
	}
	if e.BudgetExpiresAt != nil {
		s.ExpiresAt = *e.BudgetExpiresAt
	}
	return s
}

func (r *run) stepRetrying(st *step, f *Failure, d retry.Decision) events.StepRetrying {
	e := events.StepRetrying{
		ItemID: r.a.ItemID, ItemIndex: r.a.ItemIndex, Step: st.label, Attempt: d.State.Attempts, ErrorType: d.Type,
		Error: f.Message, Rule: f.Rule, Matched: d.Matched,
		ComputedDelayMS: events.Millis(d.Computed), DelayMS: events.Millis(d.Delay), AskedMS: d.State.Asked,
		WaitedMS: d.State.Waited,
	}
	if st.policy().Budget > 0 {
		left, expires := events.Millis(d.BudgetLeft), d.State.ExpiresAt
		e.BudgetLeftMS, e.BudgetExpiresAt = &left, &expires
	}
	return e
}

// pause waits d. The attempt may go on in another worker slot afterwards.
func (r *run) pause(ctx context.Context, d time.Duration) error {
	slot, err := r.x.host.Pause(ctx, r.a, d, r.keepSlot)
	return r.waited(ctx, slot, err)
}

// heedRetryAfter adds to a failure how long the service asks to wait, by all that the try printed, and by the
// file that the step names.
func (r *run) heedRetryAfter(s *scope, st *step, res result, f *Failure) {
	after := st.policy().RetryAfter
	if after == nil || f.RetryAfter > 0 {
		return
	}
	texts := []string{res.Output, res.Stderr}
	if st.after != nil && r.x.Simulate == nil {
		if path, err := st.after.Bind(s.binding(st)); err == nil {
			texts = append(texts, headOf(process.Resolve(cmp.Or(res.dir, r.a.Dir), path)))
		}
	}
	f.RetryAfter, _ = after.Asked(time.Now(), texts...)
}

// maxHead bounds what is read of the file of a retry_after.
const maxHead = 64 << 10

// headOf returns the beginning of a regular file; "" if there is none.
func headOf(path string) string {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return "" // a pipe would wait for its writer
	}
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer check.Quietly(file.Close)
	data, _ := io.ReadAll(io.LimitReader(file, maxHead))
	return string(data)
}

// sessionBefore returns the session that the first try of st is to continue, of an attempt or a run before this
// one; empty means none.
func (r *run) sessionBefore(s *scope, st *step) string {
	e := r.a.Session
	ask, is := r.ask(st)
	if e == nil || !is || e.Step != st.label || s.loop != nil || e.Preset != ask.Preset ||
		(r.a.Phase != phaseMap && st.position != len(r.a.Done)) {
		return ""
	}
	r.a.Session = nil
	return e.SessionID
}
