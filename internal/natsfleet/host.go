package natsfleet

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/ai"
	"prodigy/internal/events"
	"prodigy/internal/fleet"
	"prodigy/internal/limit"
	"prodigy/internal/outputs"
	"prodigy/internal/process"
)

// workerHost is the job that attempts on a worker belong to: it passes on what the coordinator has to know or to
// decide.
type workerHost struct {
	*worker
	job *workerJob
}

var _ agent.Host = (*workerHost)(nil)

var errHalting = errors.New("the job is stopping")

// held returns what the worker holds of an attempt, or nil if the attempt is one of a workspace or was dropped.
func (h *workerHost) held(a *agent.Attempt) (k *heldAttempt) {
	h.turn(func(s *workerState) { k = s.heldOf(h.job, a.Token) })
	return k
}

// Emit implements agent.Host.
func (h *workerHost) Emit(a *agent.Attempt, e events.Event) {
	line, err := lineOf(a.JobID, e)
	if k := h.held(a); k != nil && err == nil && a.ItemID != "" { // else it is about a workspace
		h.report(k, fleet.Report{Kind: fleet.Event, Event: line})
	}
}

// Output implements agent.Host.
func (h *workerHost) Output(a *agent.Attempt, e outputs.Entry) {
	if k := h.held(a); k != nil && !e.Provisional && a.ItemID != "" {
		h.report(k, fleet.Report{Kind: fleet.Printed, Entry: &e})
	}
}

// Progress implements agent.Host. Only the last step is told, see worker.progress.
func (h *workerHost) Progress(a *agent.Attempt, e events.AgentProgress) {
	h.turn(func(s *workerState) {
		if k := s.heldOf(h.job, a.Token); k != nil && a.ItemID != "" {
			k.at = &e
		}
	})
}

// Pause waits between two tries. The worker decides alone that others get the slot; the coordinator is told, so that it
// sends more.
func (h *workerHost) Pause(ctx context.Context, a *agent.Attempt, d time.Duration, keepSlot bool) (int, error) {
	k := h.held(a)
	if k == nil || keepSlot || h.isolated() || d < 50*time.Millisecond {
		return a.Worker, h.wait(ctx, k, d)
	}
	due := time.Now().Add(d)
	h.report(k, fleet.Report{Kind: fleet.Parked, For: d})
	return h.without(ctx, k, func() error { return h.wait(ctx, k, time.Until(due)) })
}

const (
	turnSoon = 50 * time.Millisecond // how long the turn of a step may take before others have the slot
	turnKept = time.Second           // how long a turn may be used after it was given
)

// StepTurn has the coordinator say when it is the step's turn. One that comes too late, after a time without the
// coordinator or without a free slot, is not used: with the turns that others had meanwhile, too many steps would begin
// at once.
func (h *workerHost) StepTurn(ctx context.Context, a *agent.Attempt, t agent.StepTurn, keepSlot bool) (int, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(h.waits(), func() { cancel(errHalting) })()
	slot, began := a.Worker, time.Now()
	for {
		var given time.Time
		next, err := h.awaiting(ctx, a, turnSoon, keepSlot, func() error {
			age, err := h.askAged(ctx, h.job, callStepTurn, a.Token, callArgs{Turn: t, KeepSlot: keepSlot}, new(callResult))
			given = time.Now().Add(-age)
			return err
		})
		if !keepSlot {
			slot = next
		}
		switch {
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case err != nil: // the attempt is given up
			return 0, errHalting
		case time.Since(given) < turnKept:
			return slot, nil
		}
		t.Late, keepSlot = time.Since(began), true
	}
}

// awaiting calls do, which waits for the coordinator, and returns the slot that the attempt goes on in. After some time
// others have its slot, unless it keeps that.
func (h *workerHost) awaiting(ctx context.Context, a *agent.Attempt, after time.Duration, keepSlot bool,
	do func() error,
) (int, error) {
	answered := make(chan error, 1)
	go func() { answered <- do() }()
	k := h.held(a)
	soon := time.After(after)
	if keepSlot || k == nil || h.isolated() {
		soon = nil
	}
	select {
	case err := <-answered:
		return a.Worker, err
	case <-soon:
		return h.without(ctx, k, func() error { return <-answered })
	}
}

// isolated reports whether attempts keep their slot while they wait, since its workspace is theirs.
func (h *workerHost) isolated() bool { return h.entry(h.job).Seed != "" }

// without calls do while others have the slot of an attempt, and returns the slot that it goes on in.
func (h *workerHost) without(ctx context.Context, k *heldAttempt, do func() error) (slot int, err error) {
	h.turn(func(s *workerState) { s.vacate(k) })
	if err := do(); err != nil {
		return 0, err
	}
	woken := make(chan int, 1)
	h.turn(func(s *workerState) { s.waking, s.woken = append(s.waking, woken), true })
	select {
	case slot = <-woken:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-h.waits().Done():
		err = errHalting
	}
	h.turn(func(s *workerState) {
		if err == nil {
			k.slot = slot
			return
		}
		s.waking = slices.DeleteFunc(s.waking, func(c chan int) bool { return c == woken })
		select {
		case slot := <-woken: // which it was given meanwhile
			s.release(slot)
		default:
		}
	})
	return slot, err
}

// waits returns a context that ends when what waits of the job is to end. A job that was stopped and goes on has
// another.
func (h *workerHost) waits() (waits context.Context) {
	h.turn(func(*workerState) { waits = h.job.waits })
	return waits
}

// wait waits for the next try of a step. Somebody may ask that it does not wait so long.
func (h *workerHost) wait(ctx context.Context, k *heldAttempt, d time.Duration) error {
	var hurried chan struct{}
	if k != nil {
		h.turn(func(*workerState) {
			if k.hurried == nil {
				k.hurried = make(chan struct{})
			}
			hurried = k.hurried
		})
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-hurried:
		return nil
	case <-h.waits().Done():
		return errHalting
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Stopping implements agent.Host. A stop reaches attempts by their contexts.
func (h *workerHost) Stopping() error { return nil }

// Lowered implements agent.Host.
func (h *workerHost) Lowered(most int, why error) {
	h.say("%s: fewer commands run at a time from now on", process.Shortage(why))
}

// Register implements agent.Host.
func (h *workerHost) Register() *process.Register { return h.register }

// KeepUnmasked is for phases, which do not run here.
func (h *workerHost) KeepUnmasked(*agent.Attempt, int, agent.Printed) {}

// call calls the coordinator about an attempt, or about none with the token 0.
func (h *workerHost) call(ctx context.Context, method string, token int64, args callArgs) (r callResult, err error) {
	err = h.ask(ctx, h.job, method, token, args, &r)
	return r, err
}

// Unmasked implements agent.Host. It reports false if the coordinator does not know what the step has printed.
func (h *workerHost) Unmasked(a *agent.Attempt, phase string, step int) (agent.Printed, bool) {
	r, err := h.call(h.lifeOf(h.job), callUnmasked, a.Token, callArgs{Phase: phase, Number: step})
	if err != nil || r.Printed == nil {
		return agent.Printed{}, false
	}
	return *r.Printed, true
}

// AdmitStep implements agent.Host.
func (h *workerHost) AdmitStep(ctx context.Context, b agent.StepBreaker) (limit.Ticket, string, error) {
	r, err := h.call(ctx, callAdmitStep, 0, callArgs{Breaker: b})
	return r.Step, r.Refused, err
}

// ReportStep implements agent.Host. It waits for the coordinator, so that the step after it knows of the failure.
func (h *workerHost) ReportStep(b agent.StepBreaker, t limit.Ticket, success bool) (shut time.Duration) {
	r, _ := h.call(h.lifeOf(h.job), callReportStep, 0, callArgs{Breaker: b, Step: t, Success: success})
	return r.Shut
}

// ReleaseStep does not wait: a coordinator that is away has forgotten the start.
func (h *workerHost) ReleaseStep(b agent.StepBreaker, t limit.Ticket) {
	h.release(callArgs{Breaker: b, Step: t})
}

// release gives a start back without waiting. The coordinator gets a lease to answer.
func (h *workerHost) release(args callArgs) {
	go func() {
		ctx, cancel := context.WithTimeout(h.life, h.entry(h.job).Lease)
		defer cancel()
		_, _ = h.call(ctx, callRelease, 0, args)
	}()
}

// AdmitAgent waits for the coordinator. After a moment others have the slot.
func (h *workerHost) AdmitAgent(ctx context.Context, a *agent.Attempt, ask agent.AgentAsk, keepSlot bool) (int,
	agent.AgentTicket, *agent.Failure, error,
) {
	var r callResult
	slot, err := h.awaiting(ctx, a, time.Second, keepSlot, func() (err error) {
		r, err = h.call(ctx, callAdmitAgent, a.Token, callArgs{Ask: ask, KeepSlot: keepSlot})
		return err
	})
	if err != nil && r.Agent.Owner != "" && r.Refusal == nil {
		h.ReleaseAgent(r.Agent)
	}
	return slot, r.Agent, r.Refusal, err
}

// AgentCost says what an agent has cost by now, and whether it has to end. The coordinator is not waited for.
func (h *workerHost) AgentCost(t agent.AgentTicket, cost limit.USD) bool {
	ctx, cancel := context.WithTimeout(h.lifeOf(h.job), time.Second)
	defer cancel()
	r, err := h.call(ctx, callAgentCost, 0, callArgs{Agent: t, Cost: cost})
	return err == nil && r.Over
}

// RecordUsage waits until the coordinator has it: what an agent has cost is not to be lost. A stop, which may be why
// the agent has ended, gives that a lease: the coordinator still listens, if it is there.
func (h *workerHost) RecordUsage(a *agent.Attempt, t agent.AgentTicket, e events.AgentUsage) {
	line, err := lineOf(a.JobID, e)
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(h.life)
	defer cancel()
	defer context.AfterFunc(h.lifeOf(h.job), func() {
		h.turn(func(s *workerState) {
			if s.jobs[h.job.key] != h.job { // nobody is there any more who would answer
				cancel()
				return
			}
			time.AfterFunc(h.job.Lease, cancel)
		})
	})()
	_, _ = h.call(ctx, callRecordUsage, a.Token, callArgs{Agent: t, Usage: line})
}

// ReportAgent implements agent.Host.
func (h *workerHost) ReportAgent(a *agent.Attempt, t agent.AgentTicket, f *agent.Failure, use ai.LimitUse) (bool,
	error,
) {
	r, err := h.call(h.lifeOf(h.job), callReportAgent, a.Token, callArgs{Agent: t, Failure: f, Use: use})
	return r.Again, err
}

// ReleaseAgent gives a start back without waiting.
func (h *workerHost) ReleaseAgent(t agent.AgentTicket) {
	h.release(callArgs{Agent: t})
}

// ask makes a call of the coordinator of a job, until it answers or ctx ends.
func (w *worker) ask(ctx context.Context, j *workerJob, method string, token int64, args, result any) error {
	_, err := w.askAged(ctx, j, method, token, args, result)
	return err
}

// askAged is ask. It also returns how old the answer was when it was sent: it could not be before, if the coordinator
// or the broker was away.
func (w *worker) askAged(ctx context.Context, j *workerJob, method string, token int64, args,
	result any,
) (age time.Duration, err error) {
	number := 0
	w.turn(func(s *workerState) {
		s.asked++
		number = s.asked
	})
	q := fleet.Call{
		ID: w.node.Instance + "-" + strconv.Itoa(number), Method: method, Token: token, Args: encoded(args),
		Curve: w.curveID, From: w.node.Instance,
	}
	var joined fleet.Joined
	for {
		q.Has = len(joined.Data)
		one, cancel := context.WithTimeout(ctx, pendingAfter+time.Second)
		m, err := w.nc.RequestWithContext(one, callSubject(q.From, j.key), encoded(q))
		cancel()
		if err == nil {
			if err = w.trust.checkMessage(m, signedAnswer, j.key+"\x00"+q.ID); err != nil {
				w.warn("a response of the coordinator of job " + w.entry(j).ID + ": " + err.Error())
			}
		}
		if err != nil {
			if !pause(ctx, 250*time.Millisecond) { // the coordinator is away
				return 0, context.Cause(ctx)
			}
			continue
		}
		var answer fleet.CallAnswer
		if err := json.Unmarshal(m.Data, &answer); err != nil {
			return 0, err
		}
		if answer.Piece != nil {
			if !joined.Join(*answer.Piece) {
				continue
			}
			if err := json.Unmarshal(joined.Data, &answer); err != nil {
				return 0, err
			}
		}
		switch {
		case answer.Pending:
			continue
		case answer.Err != "" && answer.Over:
			return answer.Age, overError{errors.New(answer.Err)}
		case answer.Err != "":
			return answer.Age, errors.New(answer.Err)
		case answer.Sealed != nil:
			if answer.Result, err = w.curve.Open(answer.Sealed, answer.Key); err != nil {
				return answer.Age, err
			}
		}
		return answer.Age, json.Unmarshal(answer.Result, result)
	}
}
