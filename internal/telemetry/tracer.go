package telemetry

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
)

// span is a span that has ended.
type span struct {
	Context events.TraceContext

	// The span above. Its zero value means none.
	Parent events.TraceContext

	// One of few: what tells spans of one name apart is in the attributes.
	Name string

	Begin  time.Time
	End    time.Time
	Attrs  []attr
	Events []spanEvent

	// Why what the span is about has failed. It is empty if it has not.
	Error string
}

// spanEvent is something that happened during a span.
type spanEvent struct {
	Name  string
	Time  time.Time
	Attrs []attr
}

// tracer makes the spans and log records of a job.
type tracer struct {
	// Called with each span when it ends, in the order of the ends.
	span func(span)

	// Called with each log record, after the span that it belongs to has ended, if that ends with the same record.
	log func(logRecord)

	// The span of the job, whose trace all spans are in.
	job events.TraceContext

	// The span that the job was started in. Its zero value means none.
	parent events.TraceContext

	workflow string

	// The spans that are open. Each is nil while there is none.
	run *open

	phase *open

	// The step of the phase, or of a standard workflow. It has no record of its beginning.
	step *open

	// How many steps of the phase are done. The name of the next step's span is made of it.
	stepsRun int

	// The run of the steps that verify what was merged.
	verify *open

	// Items that run or wait for their next attempt, by index, and the same by id.
	items map[int]*item

	byID map[string]*item

	// The span that the record being applied is about. Its zero value stands for the span of the run.
	subject events.TraceContext
}

// open is a span that has not ended.
type open struct {
	span
}

// item is an item that runs, or waits for its next attempt.
type item struct {
	open
	id      string
	attempt *open
	step    *open

	// It continues though the run has ended, on a worker of a fleet.
	kept bool
}

// newTracer returns the tracer of a job. Parent is the traceparent that the job was started with.
func newTracer(jobID, parent string) *tracer {
	t := &tracer{job: events.TraceOfJob(jobID, parent), items: map[int]*item{}, byID: map[string]*item{}}
	t.parent, _ = events.ParseTrace(parent)
	return t
}

// apply takes the next record of the log.
func (t *tracer) apply(r events.Record) {
	if events.BetweenRuns(r.Event) {
		return
	}
	t.subject = events.TraceContext{}
	switch e := r.Event.(type) {
	case events.JobStarted:
		t.workflow = e.Workflow
		t.begin(r, "job "+e.Workflow, t.parent, attr{"prodigy.mode", e.Mode}, attr{"prodigy.slots", e.MaxParallel})
	case events.JobResumed:
		t.died(r, e)
		t.begin(r, "resume "+t.workflow, t.job, attr{"prodigy.reason", e.Reason})
		if e.Phase != "map" && e.Phase != "" {
			t.beginPhase(r.Time, e.Phase, e.StepsDone)
		} else {
			t.stepsRun = e.StepsDone
		}
	case events.PhaseStarted:
		if e.Phase != "map" {
			t.beginPhase(r.Time, e.Phase, 0)
		}
	case events.PhaseCompleted:
		t.endPhase(r.Time, "")
	case events.StepCompleted:
		t.stepCompleted(r.Time, e)
	case events.StepRetrying:
		t.stepRetrying(r.Time, e)
	case events.StepFailed:
		t.stepFailed(r.Time, e)
	case events.AgentUsage:
		t.used(r.Time, e)
	case events.AISessionStarted:
		t.during(r.Time, e.ItemID, e.Step, "agent session", attr{"gen_ai.provider.name", e.Preset},
			attr{"gen_ai.conversation.id", e.SessionID}, attr{"prodigy.resumed", e.Resumed})
	case events.StepTurn:
		t.during(r.Time, e.ItemID, e.Step, "turn", attr{"prodigy.key", e.Key},
			attr{"prodigy.waited", time.Duration(e.WaitedMS).Seconds()})
	case events.StepSkipped:
		t.during(r.Time, e.ItemID, "", "step skipped", attr{"prodigy.step", e.Step})
	default:
		t.applyItem(r)
	}
	if end, ok := events.RunEndOf(r.Event); ok {
		t.runEnded(r.Time, end)
	}
	if l, ok := logRecordOf(r); ok {
		l.Context = cmp.Or(t.subject, t.runContext())
		t.log(l)
	}
}

// runEnded ends a run with its last word. Only one that has failed, or was cancelled, is an error.
func (t *tracer) runEnded(at time.Time, end events.RunEnd) {
	m, state := end.Metrics, string(end.State)
	if m == nil {
		t.end(at, "", []attr{{"prodigy.outcome", state}, {"prodigy.reason", end.Reason}})
		return
	}
	failure := ""
	if end.State != jobs.Completed {
		failure = cmp.Or(end.Reason, state)
	}
	t.end(at, failure, []attr{
		{"prodigy.outcome", state},
		{"prodigy.items.total", m.TotalItems},
		{"prodigy.items.succeeded", m.Successful},
		{"prodigy.items.failed", m.Failed},
		{"prodigy.items.skipped", m.Skipped},
		{"prodigy.items.rejected", m.Rejected},
	})
}

// begin opens the span of a run, whose first record r is.
func (t *tracer) begin(r events.Record, name string, parent events.TraceContext, attrs ...attr) {
	attrs = append([]attr{{"prodigy.job.id", r.JobID}, {"prodigy.workflow", t.workflow}}, attrs...)
	c := t.job.Run(r.Seq)
	if c == parent {
		parent = t.parent // the log has lost its beginning
	}
	t.run = &open{span{Context: c, Parent: parent, Name: strings.TrimSpace(name), Begin: r.Time, Attrs: attrs}}
}

// close ends a span that is open.
func (t *tracer) close(o *open, at time.Time, failure string, attrs ...attr) {
	o.End, o.Error = at, failure
	if o.End.Before(o.Begin) { // the clock was set back
		o.End = o.Begin
	}
	o.Attrs = append(o.Attrs, attrs...)
	t.span(o.span)
}

// end ends the run, and what of it is open: that was interrupted, or waits for another run.
func (t *tracer) end(at time.Time, failure string, attrs []attr) {
	for index, i := range check.ByKey(t.items) {
		if i.kept {
			i.kept = false
			continue
		}
		t.endAttempt(i, at, "", attr{"prodigy.interrupted", true})
		t.close(&i.open, at, "", attr{"prodigy.item.state", "unfinished"})
		t.forget(index)
	}
	t.endPhase(at, failure)
	if t.verify != nil {
		t.close(t.verify, at, "", attr{"prodigy.interrupted", true})
		t.verify = nil
	}
	if t.run != nil {
		t.subject = t.run.Context
		t.close(t.run, at, failure, attrs...)
		t.run = nil
	}
}

// died ends a run without a last record. What workers of a fleet still run goes on.
func (t *tracer) died(r events.Record, e events.JobResumed) {
	if t.run == nil {
		return
	}
	for index, i := range t.items {
		i.kept = e.IsAttached(index)
	}
	at := r.Time
	if e.Died != nil {
		at = *e.Died
	}
	t.end(at, "the run died", []attr{{"prodigy.outcome", "died"}})
}

// beginPhase opens the span of a phase that runs once, of which some steps are done already.
func (t *tracer) beginPhase(at time.Time, name string, done int) {
	t.endPhase(at, "")
	t.stepsRun = done
	run := t.runContext()
	t.phase = &open{span{Context: run.Phase(name), Parent: run, Name: name, Begin: at}}
}

// endPhase closes the span of the phase that runs, if one does. Failure is empty if it has not failed.
func (t *tracer) endPhase(at time.Time, failure string) {
	if t.step != nil && len(t.step.Events) > 0 { // it had failed tries and no end
		t.close(t.step, at, "", attr{"prodigy.interrupted", true})
	}
	t.step = nil
	if t.phase != nil {
		t.close(t.phase, at, failure)
		t.phase = nil
	}
}

// runContext returns the span of the run; that of the job while there is none.
func (t *tracer) runContext() events.TraceContext {
	if t.run == nil {
		return t.job
	}
	return t.run.Context
}

// phaseStep returns the step of the phase that runs. Without a record of its beginning it began with the
// phase, or when the step before ended.
func (t *tracer) phaseStep(label string, at time.Time) *open {
	if t.step == nil {
		above := &open{span{Context: t.job, Begin: at}}
		if t.run != nil {
			above = t.run
		}
		if t.phase != nil {
			above = t.phase
		}
		t.step = &open{span{
			Context: above.Context.Step(t.stepsRun), Parent: above.Context, Begin: above.Begin,
			Name: label,
		}}
	}
	t.step.Name = label
	return t.step
}

// stepCompleted closes the span of a step of a phase. A step that was skipped has none.
func (t *tracer) stepCompleted(at time.Time, e events.StepCompleted) {
	t.stepsRun = e.StepIndex
	s := t.phaseStep(e.Step, at)
	t.step, t.stepsRun = nil, e.StepIndex+1
	if e.Skipped {
		return
	}
	if began := at.Add(-time.Duration(e.DurationMS)); began.After(s.Begin) {
		s.Begin = began
	}
	failure := ""
	if e.Failed {
		failure = "failed, which was forgiven"
	}
	t.close(s, at, failure, attr{"prodigy.step.kind", e.Kind}, attr{"process.exit.code", e.ExitCode})
}

// findStep returns the step that runs: of an item, or else of the phase. It returns nil when there is none.
func (t *tracer) findStep(itemID, label string, at time.Time) *open {
	if itemID == "" {
		return t.phaseStep(label, at)
	}
	if i := t.byID[itemID]; i != nil {
		return cmp.Or(i.step, i.attempt)
	}
	return nil
}

// stepRetrying notes a failed try, and how long the step waits for the next, in the span of the step.
func (t *tracer) stepRetrying(at time.Time, e events.StepRetrying) {
	if s := t.findStep(e.ItemID, e.Step, at); s != nil {
		s.Events = append(s.Events, spanEvent{"backoff", at, []attr{
			{"prodigy.try", e.Attempt}, {"error.type", string(e.ErrorType)}, {
				"exception.message",
				e.Error,
			}, {"prodigy.delay", time.Duration(e.DelayMS).Seconds()},
		}})
	}
}

// stepFailed makes the span of a step a failed one, unless the job continues after the failure: then the span has
// an event. The span of a step of an item ends with its attempt, or the next step.
func (t *tracer) stepFailed(at time.Time, e events.StepFailed) {
	s := t.findStep(e.ItemID, e.Step, at)
	if s == nil {
		return
	}
	attrs := []attr{{"error.type", string(e.ErrorType)}, {"prodigy.tries", e.Attempts}}
	if e.ExitCode != nil {
		attrs = append(attrs, attr{"process.exit.code", *e.ExitCode})
	}
	if e.Action != "stop" {
		s.Events = append(s.Events, spanEvent{
			"step failed", at,
			append(attrs, attr{"exception.message", e.Error}, attr{"prodigy.action", e.Action}),
		})
		return
	}
	s.Error = e.Error
	s.Attrs = append(s.Attrs, attrs...)
	if e.ItemID == "" {
		t.close(s, at, e.Error)
		t.step = nil
	}
}

// used notes what a run of an AI agent has used, under the names of OpenTelemetry's conventions for generative AI,
// as far as these have one.
func (t *tracer) used(at time.Time, e events.AgentUsage) {
	s := t.findStep(e.ItemID, e.Step, at)
	if s == nil {
		return
	}
	attrs := []attr{
		{"gen_ai.provider.name", e.Preset},
		{"prodigy.agent.outcome", e.Outcome},
		{"prodigy.agent.turns", e.Turns},
	}
	if e.Model != "" {
		attrs = append(attrs, attr{"gen_ai.response.model", e.Model})
	}
	if e.Tokens != nil {
		attrs = append(attrs, attr{"gen_ai.usage.input_tokens", int(e.Tokens.Input + e.Tokens.Cached)},
			attr{"gen_ai.usage.output_tokens", int(e.Tokens.Output)})
	}
	if e.CostUSD != nil {
		attrs = append(attrs, attr{"prodigy.agent.cost_usd", float64(*e.CostUSD) / 1e9})
	}
	s.Events = append(s.Events, spanEvent{"agent usage", at, attrs})
}

// during notes what happened during the step of an item that runs, or else of a phase; a step of a phase has
// not begun if label is empty.
func (t *tracer) during(at time.Time, itemID, label, name string, attrs ...attr) {
	var s *open
	if itemID == "" && label == "" {
		s = cmp.Or(t.phase, t.run)
	} else {
		s = t.findStep(itemID, label, at)
	}
	if s != nil {
		s.Events = append(s.Events, spanEvent{name, at, attrs})
	}
}

// item returns the item of a record, which begins with it unless it is open.
func (t *tracer) item(r events.Record, index int, id string) *item {
	if i := t.items[index]; i != nil {
		return i
	}
	i := &item{id: id, open: open{span{
		Context: t.job.Item(r.Seq), Parent: t.runContext(), Name: "item", Begin: r.Time,
		Attrs: []attr{{"prodigy.item.id", id}, {"prodigy.item.index", index}},
	}}}
	t.items[index], t.byID[id] = i, i
	return i
}

// applyItem takes a record about an item, or about the work of several.
func (t *tracer) applyItem(r events.Record) {
	if end, ok := events.EndOf(r.Event); ok {
		t.ended(r, end)
		return
	}
	switch e := r.Event.(type) {
	case events.AgentStarted:
		t.started(r, e)
	case events.AgentStraggling:
		t.mark(e.ItemIndex, attr{"prodigy.straggler", true})
	case events.AgentPlaced:
		t.mark(e.ItemIndex, attr{"prodigy.worker", e.Node})
	case events.AgentProgress:
		t.progress(r.Time, e)
	case events.AgentSkipped:
		t.item(r, e.ItemIndex, e.ItemID)
		t.settle(e.ItemIndex, r.Time, "", "skipped")
	default:
		t.applyWorkspaces(r)
	}
}

// started opens the span of an attempt. One that is open still has no end in the log: it died with its run.
func (t *tracer) started(r events.Record, e events.AgentStarted) {
	i := t.item(r, e.ItemIndex, e.ItemID)
	t.endAttempt(i, r.Time, "", attr{"prodigy.interrupted", true})
	attrs := []attr{{"prodigy.item.id", e.ItemID}, {"prodigy.attempt", e.Attempt}, {"prodigy.slot", e.Worker}}
	if e.Key != "" {
		attrs = append(attrs, attr{"prodigy.key", e.Key})
	}
	if e.BreakerKey != "" {
		attrs = append(attrs, attr{"prodigy.breaker.key", e.BreakerKey})
	}
	if e.Alone || e.Suspect {
		attrs = append(attrs, attr{"prodigy.alone", true})
	}
	i.attempt = &open{span{
		Context: t.job.Attempt(r.Seq), Parent: i.Context, Name: "attempt", Begin: r.Time, Attrs: attrs,
	}}
}

// mark adds an attribute to the attempt that runs.
func (t *tracer) mark(index int, a attr) {
	if i := t.items[index]; i != nil && i.attempt != nil {
		i.attempt.Attrs = append(i.attempt.Attrs, a)
	}
}

// ended takes the end of an attempt, or of an item without one.
func (t *tracer) ended(r events.Record, end events.End) {
	i := t.items[end.Index]
	if end.How.GivenBack() {
		switch {
		case i == nil || !end.Ran:
		case end.How == events.Stopped:
			t.endAttempt(i, r.Time, "", attr{"prodigy.interrupted", true})
		default:
			t.endAttempt(i, r.Time, cmp.Or(end.Error, "its worker was lost"))
		}
		return
	}
	i = t.item(r, end.Index, end.ID)
	if e, failed := r.Event.(events.AgentFailed); failed {
		t.failed(r, i, e)
		return
	}
	if e, reused := r.Event.(events.AgentReused); reused {
		i.Attrs = append(i.Attrs, attr{"prodigy.reused.job", e.FromJob})
	} else if result, ok := events.ResultOf(r.Event); ok {
		t.endAttempt(i, r.Time, "", attr{"process.exit.code", *result.ExitCode})
	}
	if end.Settles {
		t.settle(end.Index, r.Time, "", "succeeded")
	}
}

// applyWorkspaces makes the spans of what is done for and with the work of attempts. They are below the run,
// since they may be about many items.
func (t *tracer) applyWorkspaces(r events.Record) {
	work := func(name string, took events.Millis, attrs ...attr) *open {
		return &open{span{
			Context: t.job.Work(r.Seq), Parent: t.runContext(), Name: name,
			Begin: r.Time.Add(-time.Duration(took)), Attrs: attrs,
		}}
	}
	switch e := r.Event.(type) {
	case events.WorktreeCreated:
		attrs := []attr{{"prodigy.slot", e.Worker}, {"prodigy.base", e.Base}}
		if e.Node != "" {
			attrs = append(attrs, attr{"prodigy.worker", e.Node})
		}
		t.close(work("create workspace", e.DurationMS, attrs...), r.Time, "")
	case events.WorktreeMerged:
		t.close(work("merge", e.DurationMS, attr{"prodigy.items", len(e.ItemIDs)}, attr{"prodigy.head", e.Head},
			attr{"prodigy.insertions", e.Insertions}, attr{"prodigy.deletions", e.Deletions}), r.Time, "")
		for n, index := range e.ItemIndexes {
			i := t.item(r, index, e.ItemIDs[n])
			i.Events = append(i.Events, spanEvent{"merged", r.Time, []attr{{"prodigy.head", e.Head}}})
			t.settle(index, r.Time, "", "succeeded")
		}
	case events.VerifyStarted:
		if t.verify != nil { // the log has lost its end
			t.close(t.verify, r.Time, "", attr{"prodigy.interrupted", true})
		}
		t.verify = work("verify", 0, attr{"prodigy.items", len(e.ItemIDs)}, attr{"prodigy.commit", e.Commit})
	case events.VerifyCompleted:
		if t.verify == nil {
			return
		}
		v, failure := t.verify, ""
		if t.verify = nil; !e.Passed {
			failure = cmp.Or(e.Error, "failed")
			v.Attrs = append(v.Attrs, attr{"prodigy.step", e.Step})
		}
		t.subject = v.Context
		t.close(v, r.Time, failure)
	}
}

// progress closes the span of the step before, and opens that of the next. Only logs with steps have these
// records.
func (t *tracer) progress(at time.Time, e events.AgentProgress) {
	i := t.byID[e.ItemID]
	if i == nil || i.attempt == nil {
		return
	}
	if i.step != nil {
		t.close(i.step, at, i.step.Error)
	}
	i.step = &open{span{
		Context: i.attempt.Context.Step(e.StepIndex), Parent: i.attempt.Context, Name: e.Step,
		Begin: at,
	}}
}

// failed closes the span of an attempt that has failed, and that of its item unless it is tried again.
func (t *tracer) failed(r events.Record, i *item, e events.AgentFailed) {
	attrs := []attr{{"error.type", string(e.ErrorType)}, {"prodigy.action", string(e.Action)}}
	if i.attempt != nil {
		ended := slices.Clone(attrs)
		if e.ExitCode != nil {
			ended = append(ended, attr{"process.exit.code", *e.ExitCode})
		}
		if e.Signal != "" {
			ended = append(ended, attr{"prodigy.signal", e.Signal})
		}
		if i.step != nil && i.step.Error == "" {
			i.step.Error = e.Error
		}
		t.endAttempt(i, r.Time, e.Error, ended...)
	}
	if e.Action.RunsAgain() {
		backoff := append(attrs, attr{"prodigy.attempt", e.Attempt})
		if e.Retry != nil && e.Retry.Alone {
			backoff = append(backoff, attr{"prodigy.alone", true})
		}
		if e.DelayMS != nil {
			backoff = append(backoff, attr{"prodigy.delay", time.Duration(*e.DelayMS).Seconds()})
		}
		i.Events = append(i.Events, spanEvent{"backoff", r.Time, backoff})
		return
	}
	state := "failed"
	switch e.Status() {
	case errorpolicy.Skipped:
		state = "skipped"
	case errorpolicy.Rejected:
		state = "rejected"
	}
	i.Attrs = append(i.Attrs, attrs...)
	t.settle(e.ItemIndex, r.Time, e.Error, state)
}

// endAttempt ends the attempt that runs, and its step.
func (t *tracer) endAttempt(i *item, at time.Time, failure string, attrs ...attr) {
	if i.step != nil {
		t.close(i.step, at, i.step.Error)
		i.step = nil
	}
	if i.attempt != nil {
		t.subject = i.attempt.Context
		t.close(i.attempt, at, failure, attrs...)
		i.attempt = nil
	}
}

// settle closes the span of an item that has its outcome.
func (t *tracer) settle(index int, at time.Time, failure, state string) {
	i := t.items[index]
	t.endAttempt(i, at, failure)
	t.close(&i.open, at, failure, attr{"prodigy.item.state", state})
	t.forget(index)
}

// forget removes an item whose span has ended.
func (t *tracer) forget(index int) {
	delete(t.byID, t.items[index].id)
	delete(t.items, index)
}
