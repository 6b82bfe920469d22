package mapreduce

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"time"

	"prodigy/internal/agent"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/items"
	"prodigy/internal/job"
	"prodigy/internal/limits"
	"prodigy/internal/retry"
)

// execute runs an attempt, on a goroutine of its own, and sends its end to the owner. It waits until the record
// of its start is written: otherwise a command that kills prodigy at once would never be noticed, and its
// number be used again.
func (j *owner) execute(ctx context.Context, a agent.Attempt) {
	e := &attemptEnd{Attempt: &a}
	if e.err = j.Log.Flush(); e.err == nil && j.makeReady(e) {
		if j.fleet != nil && a.ItemID != "" {
			files := e.files // many may be out: this is all that is kept of each
			j.fleet.Submit(ctx, &a, func(a *agent.Attempt, o agent.Outcome, err error) {
				j.agents.Go(func() error {
					end := &attemptEnd{Attempt: a, Outcome: o, files: files, err: err}
					j.conclude(end)
					j.inbox <- end
					return nil
				})
			})
			return
		}
		e.Outcome, e.err = j.executeAttempt(ctx, a)
		j.conclude(e)
	}
	j.inbox <- e
}

// synced is a slot whose agent has ended, once the record of that is on disk.
type synced struct{ slot int }

// deliver frees the slot.
func (s synced) deliver(p *pool) {
	p.runners.syncing--
	p.freeSlot(s.slot)
}

// makeReady completes an attempt with what is not known of it before it runs. It reports false if it has ended by that.
func (j *owner) makeReady(e *attemptEnd) bool {
	if e.ItemID != "" && e.Item == nil {
		it, err := j.item(e.ItemIndex)
		if err != nil {
			e.err = err
			return false
		}
		e.Item = it.Data
	}
	var err error
	if e.files, err = j.files.Begin(e.Attempt); err != nil {
		e.fail(err.Error())
		return false
	}
	return true
}

// conclude adds to the end of an attempt what is found here.
func (j *owner) conclude(e *attemptEnd) {
	if e.err != nil {
		if j.fleet == nil && !errors.Is(e.err, agent.ErrDetached) { // on a fleet it may still run
			j.files.Drop(e.files)
		}
		return
	}
	if e.Failure == nil {
		if wrong := j.files.End(e.Attempt, &e.files); wrong != "" {
			e.fail(wrong)
		}
	}
	if e.Failure != nil {
		j.files.Drop(e.files)
	}
	e.err = job.KeepLarge(j.place, &e.ItemOutput, e.ItemIndex, strconv.Itoa(e.Number))
}

// fail fails an attempt that has succeeded: it did not leave what it should.
func (e *attemptEnd) fail(message string) {
	step := ""
	if n := len(e.Steps); n > 0 {
		step = e.Steps[n-1].Label(n - 1)
	}
	e.Failure = &agent.Failure{
		Step: step,
		Failure: retry.Failure{
			Type: retry.TypeMissingOutput, Message: message, ExitCode: e.ExitCode,
			Exact: true,
		},
	}
}

// recordOutcome records the end of an attempt and what follows from it, in one record, and returns its number.
// A stop or an error of prodigy itself is not a failure of the item: the attempt is given back.
func (j *owner) recordOutcome(e *attemptEnd, halted *Result) int64 {
	a := e.Attempt
	if lost, ok := errors.AsType[*agent.LostError](e.err); ok {
		return j.Record(events.AgentLost{
			AttemptID: a.AttemptID(), Place: lost.Place, Reason: lost.Reason, Unbegun: lost.Unbegun, Cut: lost.Cut,
			Outputs: j.printed.take(a.ID),
		}).Seq
	}
	if j.Skips[a.ItemIndex] != "" && (e.err != nil || e.Failure != nil) {
		return j.recordSkipped(events.AgentFailed{
			AttemptID: a.AttemptID(), Worker: a.Worker, Place: e.Machine(),
			DurationMS: events.Millis(e.Duration), Outputs: j.printed.take(a.ID),
		})
	}
	if e.err != nil {
		reason := e.err.Error()
		if halted != nil {
			reason = halted.Reason
		}
		return j.Record(events.AgentInterrupted{
			AttemptID: a.AttemptID(), Place: e.Machine(), Reason: reason, Outputs: j.printed.take(a.ID),
		}).Seq
	}
	if e.Failure != nil {
		return j.recordFailure(e)
	}
	return j.recordSuccess(e)
}

func (j *owner) recordSuccess(e *attemptEnd) int64 {
	a, o := e.Attempt, e.Outcome
	wasDead := j.Dead(a.ItemIndex)
	r := j.Record(events.AgentCompleted{
		AttemptID: a.AttemptID(), Worker: a.Worker, Place: o.Place, DurationMS: events.Millis(o.Duration),
		ExitCode: o.ExitCode, ItemOutput: o.ItemOutput, Outputs: j.printed.take(a.ID), Changes: o.Changes,
		ItemFiles: e.files.ItemFiles,
	})
	if wasDead && o.Commit == "" {
		j.Record(events.DLQItemRemoved{ItemID: a.ItemID, Reason: "succeeded"})
	}
	return r.Seq
}

func (j *owner) recordFailure(e *attemptEnd) int64 {
	a, o, f := e.Attempt, e.Outcome, e.Failure
	now := time.Now()
	flight := j.Running[a.ItemIndex]
	if flight.Resolve != "" { // the conflict stands
		f.Type, f.Message = retry.TypeMergeConflict, "it was not resolved: "+f.Message
		o.Commit = flight.Resolve
	}
	d := j.Policy.Decide(errorpolicy.Outcome{
		Failure: f.Failure, Handled: o.Handled, Retry: flight.Retry,
	}, now, retry.NewRand(j.meta.Seed, a.ItemID, strconv.Itoa(a.Number)))
	failure := f.Failure
	failure.Type = retry.Classify(failure)
	failure.Message = retry.Headline(d.Retry.Reason, failure.Message, "")
	failed := events.AgentFailed{
		AttemptID: a.AttemptID(), Worker: a.Worker, Place: o.Place, DurationMS: events.Millis(o.Duration),
		ItemOutput: o.ItemOutput, Step: f.Step, Outputs: j.printed.take(a.ID), Commit: o.Commit,
	}
	return j.fail(failed, failure, d, now)
}

// fail records a failure with what was decided about it, and the events that only inform. A reason that e has goes
// before that of the decision. It returns the number of the failure's record.
func (j *owner) fail(e events.AgentFailed, f retry.Failure, d errorpolicy.Decision, now time.Time) int64 {
	e.Error, e.ErrorType, e.Rule, e.Signal = f.Message, f.Type, f.Rule, f.Signal
	e.StdoutTail, e.StderrTail = f.Stdout, f.Stderr
	if f.ExitCode >= 0 {
		e.ExitCode = &f.ExitCode
	}
	e.ErrorSignature, e.Action, e.Matched = retry.Signature(e.Error), d.Action, d.Retry.Matched
	e.Reason = cmp.Or(e.Reason, d.Reason)
	if d.Action.RunsAgain() {
		d.Retry.State.Resumed = false // of the next resume the log tells
		e.Retry, e.RetryAt, e.DelayMS = &d.Retry.State, new(now.Add(d.Retry.Delay)), new(events.Millis(d.Retry.Delay))
	}
	seq := j.Record(e).Seq
	switch status := e.Status(); {
	case status.DeadLetter():
		j.Record(events.DLQItemAdded{
			ItemID: e.ItemID, ErrorSignature: e.ErrorSignature, FailureCount: j.Failures[e.ItemIndex],
		})
	case status == errorpolicy.Skipped:
		skipped := events.AgentSkipped{ItemID: e.ItemID, ItemIndex: e.ItemIndex, Reason: "on_item_failure: skip"}
		switch p := j.workflow.ErrorPolicy; {
		case e.ErrorType == retry.TypeSkipped:
			skipped.Reason = e.Error
		case f.TimedOut && p.OnTimeout != "":
			skipped.Reason = "timeout_action: " + string(p.OnTimeout)
		case p.OnItemFailure.Handler != "":
			skipped.Reason = "handled by " + p.OnItemFailure.Handler
		}
		j.Record(skipped)
	}
	return seq
}

// recordSkipped settles an item as skipped, because somebody asked for it.
func (j *owner) recordSkipped(e events.AgentFailed) int64 {
	f := retry.Failure{Type: retry.TypeSkipped, Message: "skipped by " + j.Skips[e.ItemIndex], ExitCode: -1}
	return j.fail(e, f, errorpolicy.Decision{Action: errorpolicy.Skip}, time.Now())
}

// dropped settles an item that is not to start: its retry budget has expired, or the open breaker refuses it. It
// reports whether it is one.
func (p *pool) dropped(it items.Item, v limits.Verdict, now time.Time) bool {
	again, used := p.workflow.ErrorPolicy.RetryConfig, p.RetryOf(it.Index)
	switch {
	case again != nil && again.Expired(used, now):
		last := p.Failed[it.Index]
		f := retry.Failure{Type: last.Type, Message: last.Error, ExitCode: -1}
		d := p.Policy.GiveUp(errorpolicy.Outcome{Failure: f, Retry: used})
		f.Message = retry.Headline(retry.Budget, f.Message, "")
		p.fail(events.AgentFailed{AttemptID: p.notRun(it.ID, it.Index), Step: last.Step}, f, d, now)
	case v.Answer == limits.Refuse:
		f := retry.Failure{Type: retry.TypeCircuitOpen, ExitCode: -1}
		last := p.Failed[it.Index].Error
		f.Message = retry.Headline(retry.CircuitOpen, last, "refused: the circuit breaker is open")
		e := events.AgentFailed{AttemptID: p.notRun(it.ID, it.Index)}
		p.fail(e, f, errorpolicy.Decision{Action: errorpolicy.DLQ}, now)
	default:
		return false
	}
	p.suspects.ended(it.Index)
	return true
}
