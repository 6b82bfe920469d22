package telemetry

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

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

	// The spans that have not ended.
	open map[place]*span

	// The indexes of the items that run or wait for their next attempt, by their ids.
	items map[string]int

	// How many steps of the phase are done. The name of the next step's span is made of it.
	stepsRun int

	// The span that the record being applied is about. Its zero value stands for the span of the run.
	subject events.TraceContext
}

// place is where in the tree of a job a span is. No more than one is open at a place.
type place struct {
	level level

	// The id of the item, of what is about one.
	item string
}

// level is a level of the tree. Steps are those of the attempt at an item, or else of the phase, or of a standard
// workflow.
type level int

const (
	atRun level = iota
	atPhase
	atVerify // of what was merged
	atItem
	atAttempt
	atStep
)

// newTracer returns the tracer of a job. Parent is the traceparent that the job was started with.
func newTracer(jobID, parent string) *tracer {
	t := &tracer{job: events.TraceOfJob(jobID, parent), open: map[place]*span{}, items: map[string]int{}}
	t.parent, _ = events.ParseTrace(parent)
	return t
}

// of returns the open span at a level about no item, or nil.
func (t *tracer) of(l level) *span { return t.open[place{level: l}] }

// interrupted is the attribute of a span that did not come to its end.
var interrupted = attr{"prodigy.interrupted", true}

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
		t.findStep(e.ItemID, e.Step, r.Time).note(r.Time, "backoff", attr{"prodigy.try", e.Attempt},
			attr{"error.type", string(e.ErrorType)}, attr{"exception.message", e.Error},
			attr{"prodigy.delay", time.Duration(e.DelayMS).Seconds()})
	case events.StepFailed:
		t.stepFailed(r.Time, e)
	case events.AgentUsage:
		t.used(r.Time, e)
	case events.AISessionStarted:
		t.findStep(e.ItemID, e.Step, r.Time).note(r.Time, "agent session", attr{"gen_ai.provider.name", e.Preset},
			attr{"gen_ai.conversation.id", e.SessionID}, attr{"prodigy.resumed", e.Resumed})
	case events.StepTurn:
		t.findStep(e.ItemID, e.Step, r.Time).note(r.Time, "turn", attr{"prodigy.key", e.Key},
			attr{"prodigy.waited", time.Duration(e.WaitedMS).Seconds()})
	case events.StepSkipped: // a step of a phase has not begun
		s := cmp.Or(t.of(atPhase), t.of(atRun))
		if e.ItemID != "" {
			s = t.findStep(e.ItemID, e.Step, r.Time)
		}
		s.note(r.Time, "step skipped", attr{"prodigy.step", e.Step})
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
	attrs := []attr{{"prodigy.outcome", state}}
	failure := ""
	if m == nil {
		attrs = append(attrs, attr{"prodigy.reason", end.Reason})
	} else {
		attrs = append(attrs, attr{"prodigy.items.total", m.TotalItems}, attr{"prodigy.items.succeeded", m.Successful},
			attr{"prodigy.items.failed", m.Failed}, attr{"prodigy.items.skipped", m.Skipped},
			attr{"prodigy.items.rejected", m.Rejected})
		if end.State != jobs.Completed {
			failure = cmp.Or(end.Reason, state)
		}
	}
	t.end(at, failure, func(int) bool { return false }, attrs...)
}

// begin opens the span of a run, whose first record r is.
func (t *tracer) begin(r events.Record, name string, parent events.TraceContext, attrs ...attr) {
	attrs = append([]attr{{"prodigy.job.id", r.JobID}, {"prodigy.workflow", t.workflow}}, attrs...)
	c := t.job.Run(r.Seq)
	if c == parent {
		parent = t.parent // the log has lost its beginning
	}
	t.open[place{level: atRun}] = &span{
		Context: c, Parent: parent, Name: strings.TrimSpace(name), Begin: r.Time, Attrs: attrs,
	}
}

// close ends the span that is open at a place, if one is. Item is empty where it is about none.
func (t *tracer) close(l level, item string, at time.Time, failure string, attrs ...attr) {
	p := place{l, item}
	s := t.open[p]
	if s == nil {
		return
	}
	delete(t.open, p)
	if l == atRun || l == atAttempt || l == atVerify {
		t.subject = s.Context
	}
	t.emit(s, at, cmp.Or(failure, s.Error), attrs...)
}

// emit tells of a span that has ended.
func (t *tracer) emit(s *span, at time.Time, failure string, attrs ...attr) {
	s.End, s.Error = at, failure
	if s.End.Before(s.Begin) { // the clock was set back
		s.End = s.Begin
	}
	s.Attrs = append(s.Attrs, attrs...)
	t.span(*s)
}

// end ends the run, and what of it is open: that was interrupted, or waits for another run. Of the items those stay
// that goesOn reports true for, by their index.
func (t *tracer) end(at time.Time, failure string, goesOn func(index int) bool, attrs ...attr) {
	ids := slices.SortedFunc(maps.Keys(t.items), func(a, b string) int { return t.items[a] - t.items[b] })
	for _, id := range ids {
		if !goesOn(t.items[id]) {
			t.endAttempt(id, at, "", interrupted)
			t.settle(id, at, "", "unfinished")
		}
	}
	t.endPhase(at, failure)
	t.close(atVerify, "", at, "", interrupted)
	t.close(atRun, "", at, failure, attrs...)
}

// died ends a run without a last record. What workers of a fleet still run goes on.
func (t *tracer) died(r events.Record, e events.JobResumed) {
	if t.of(atRun) == nil {
		return
	}
	at := r.Time
	if e.Died != nil {
		at = *e.Died
	}
	t.end(at, "the run died", e.IsAttached, attr{"prodigy.outcome", "died"})
}

// beginPhase opens the span of a phase that runs once, of which some steps are done already.
func (t *tracer) beginPhase(at time.Time, name string, done int) {
	t.endPhase(at, "")
	t.stepsRun = done
	run := t.runContext()
	t.open[place{level: atPhase}] = &span{Context: run.Phase(name), Parent: run, Name: name, Begin: at}
}

// endPhase closes the span of the phase that runs, if one does. Failure is empty if it has not failed.
func (t *tracer) endPhase(at time.Time, failure string) {
	if s := t.of(atStep); s != nil && len(s.Events) > 0 { // it had failed tries and no end
		t.close(atStep, "", at, "", interrupted)
	}
	delete(t.open, place{level: atStep})
	t.close(atPhase, "", at, failure)
}

// runContext returns the span of the run; that of the job while there is none.
func (t *tracer) runContext() events.TraceContext {
	if s := t.of(atRun); s != nil {
		return s.Context
	}
	return t.job
}

// findStep returns the step that runs: of an item, or else of the phase. Without one it returns nil. Without a
// record of its beginning, a step of a phase began with the phase, or when the step before ended.
func (t *tracer) findStep(itemID, label string, at time.Time) *span {
	if itemID != "" {
		return cmp.Or(t.open[place{atStep, itemID}], t.open[place{atAttempt, itemID}])
	}
	s := t.of(atStep)
	if s == nil {
		above := cmp.Or(t.of(atPhase), t.of(atRun), &span{Context: t.job, Begin: at})
		s = &span{Context: above.Context.Step(t.stepsRun), Parent: above.Context, Begin: above.Begin}
		t.open[place{level: atStep}] = s
	}
	s.Name = label
	return s
}

// stepCompleted closes the span of a step of a phase. A step that was skipped has none.
func (t *tracer) stepCompleted(at time.Time, e events.StepCompleted) {
	t.stepsRun = e.StepIndex
	s := t.findStep("", e.Step, at)
	t.stepsRun++
	if e.Skipped {
		delete(t.open, place{level: atStep})
		return
	}
	if began := at.Add(-time.Duration(e.DurationMS)); began.After(s.Begin) {
		s.Begin = began
	}
	failure := ""
	if e.Failed {
		failure = "failed, but the failure was allowed"
	}
	s.Error = ""
	t.close(atStep, "", at, failure, attr{"prodigy.step.kind", e.Kind}, attr{"process.exit.code", e.ExitCode})
}

// note notes what happened in a span, if that is open.
func (s *span) note(at time.Time, name string, attrs ...attr) {
	if s != nil {
		s.Events = append(s.Events, spanEvent{name, at, attrs})
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
		attrs = append(attrs, attr{"exception.message", e.Error}, attr{"prodigy.action", e.Action})
		s.note(at, "step failed", attrs...)
		return
	}
	s.Error = e.Error
	s.Attrs = append(s.Attrs, attrs...)
	if e.ItemID == "" {
		t.close(atStep, "", at, e.Error)
	}
}

// used notes what a run of an AI agent has used, under the names of OpenTelemetry's conventions for generative AI,
// as far as these have one.
func (t *tracer) used(at time.Time, e events.AgentUsage) {
	attrs := []attr{
		{"gen_ai.provider.name", e.Preset},
		{"gen_ai.response.model", e.Model},
		{"prodigy.agent.outcome", e.Outcome},
		{"prodigy.agent.turns", e.Turns},
	}
	if e.Tokens != nil {
		attrs = append(attrs, attr{"gen_ai.usage.input_tokens", int(e.Tokens.Input + e.Tokens.Cached)},
			attr{"gen_ai.usage.output_tokens", int(e.Tokens.Output)})
	}
	if e.CostUSD != nil {
		attrs = append(attrs, attr{"prodigy.agent.cost_usd", float64(*e.CostUSD) / 1e9})
	}
	t.findStep(e.ItemID, e.Step, at).note(at, "agent usage", attrs...)
}

// item returns the span of the item of a record, which begins with it unless it is open.
func (t *tracer) item(r events.Record, index int, id string) *span {
	p := place{atItem, id}
	if t.open[p] == nil {
		t.items[id] = index
		t.open[p] = &span{
			Context: t.job.Item(r.Seq), Parent: t.runContext(), Name: "item", Begin: r.Time,
			Attrs: []attr{{"prodigy.item.id", id}, {"prodigy.item.index", index}},
		}
	}
	return t.open[p]
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
		t.mark(e.ItemID, attr{"prodigy.straggler", true})
	case events.AgentPlaced:
		t.mark(e.ItemID, attr{"prodigy.worker", e.Node})
	case events.AgentProgress:
		t.progress(r.Time, e)
	case events.AgentSkipped:
		t.item(r, e.ItemIndex, e.ItemID)
		t.settle(e.ItemID, r.Time, "", "skipped")
	default:
		t.applyWorkspaces(r)
	}
}

// started opens the span of an attempt. One that is open still has no end in the log: it died with its run.
func (t *tracer) started(r events.Record, e events.AgentStarted) {
	i := t.item(r, e.ItemIndex, e.ItemID)
	t.endAttempt(e.ItemID, r.Time, "", interrupted)
	attrs := []attr{
		{"prodigy.item.id", e.ItemID},
		{"prodigy.attempt", e.Attempt},
		{"prodigy.slot", e.Worker},
		{"prodigy.key", e.Key},
		{"prodigy.breaker.key", e.BreakerKey},
	}
	if e.Alone || e.Suspect {
		attrs = append(attrs, attr{"prodigy.alone", true})
	}
	t.open[place{atAttempt, e.ItemID}] = &span{
		Context: t.job.Attempt(r.Seq), Parent: i.Context, Name: "attempt", Begin: r.Time, Attrs: attrs,
	}
}

// mark adds an attribute to the attempt that runs.
func (t *tracer) mark(id string, a attr) {
	if s := t.open[place{atAttempt, id}]; s != nil {
		s.Attrs = append(s.Attrs, a)
	}
}

// ended takes the end of an attempt, or of an item without one.
func (t *tracer) ended(r events.Record, end events.End) {
	if end.How.GivenBack() {
		switch {
		case !end.Ran:
		case end.How == events.Stopped:
			t.endAttempt(end.ID, r.Time, "", interrupted)
		default:
			t.endAttempt(end.ID, r.Time, cmp.Or(end.Error, "its worker was lost"))
		}
		return
	}
	i := t.item(r, end.Index, end.ID)
	if e, failed := r.Event.(events.AgentFailed); failed {
		t.failed(r, i, e)
		return
	}
	if e, reused := r.Event.(events.AgentReused); reused {
		i.Attrs = append(i.Attrs, attr{"prodigy.reused.job", e.FromJob})
	} else if result, ok := events.ResultOf(r.Event); ok {
		t.endAttempt(end.ID, r.Time, "", attr{"process.exit.code", *result.ExitCode})
	}
	if end.Settles {
		t.settle(end.ID, r.Time, "", "succeeded")
	}
}

// applyWorkspaces makes the spans of what is done for and with the work of attempts. They are below the run,
// since they may be about many items.
func (t *tracer) applyWorkspaces(r events.Record) {
	work := func(name string, took events.Millis, attrs ...attr) *span {
		return &span{
			Context: t.job.Work(r.Seq), Parent: t.runContext(), Name: name,
			Begin: r.Time.Add(-time.Duration(took)), Attrs: attrs,
		}
	}
	switch e := r.Event.(type) {
	case events.WorktreeCreated:
		t.emit(work("create workspace", e.DurationMS, attr{"prodigy.slot", e.Worker}, attr{"prodigy.base", e.Base},
			attr{"prodigy.worker", e.Node}), r.Time, "")
	case events.WorktreeMerged:
		t.emit(work("merge", e.DurationMS, attr{"prodigy.items", len(e.ItemIDs)}, attr{"prodigy.head", e.Head},
			attr{"prodigy.insertions", e.Insertions}, attr{"prodigy.deletions", e.Deletions}), r.Time, "")
		for n, index := range e.ItemIndexes {
			t.item(r, index, e.ItemIDs[n]).note(r.Time, "merged", attr{"prodigy.head", e.Head})
			t.settle(e.ItemIDs[n], r.Time, "", "succeeded")
		}
	case events.VerifyStarted:
		t.close(atVerify, "", r.Time, "", interrupted) // the log has lost its end
		t.open[place{level: atVerify}] = work("verify", 0, attr{"prodigy.items", len(e.ItemIDs)}, attr{"prodigy.commit", e.Commit})
	case events.VerifyCompleted:
		if e.Passed {
			t.close(atVerify, "", r.Time, "")
		} else {
			t.close(atVerify, "", r.Time, cmp.Or(e.Error, "failed"), attr{"prodigy.step", e.Step})
		}
	}
}

// progress closes the span of the step before, and opens that of the next. Only logs with steps have these
// records.
func (t *tracer) progress(at time.Time, e events.AgentProgress) {
	a := t.open[place{atAttempt, e.ItemID}]
	if a == nil {
		return
	}
	t.close(atStep, e.ItemID, at, "")
	t.open[place{atStep, e.ItemID}] = &span{Context: a.Context.Step(e.StepIndex), Parent: a.Context, Name: e.Step, Begin: at}
}

// failed closes the span of an attempt that has failed, and that of its item unless it is tried again.
func (t *tracer) failed(r events.Record, i *span, e events.AgentFailed) {
	attrs := []attr{{"error.type", string(e.ErrorType)}, {"prodigy.action", string(e.Action)}}
	ended := append(slices.Clone(attrs), attr{"prodigy.signal", e.Signal})
	if e.ExitCode != nil {
		ended = append(ended, attr{"process.exit.code", *e.ExitCode})
	}
	if s := t.open[place{atStep, e.ItemID}]; s != nil {
		s.Error = cmp.Or(s.Error, e.Error)
	}
	t.endAttempt(e.ItemID, r.Time, e.Error, ended...)
	if e.Action.RunsAgain() {
		backoff := append(attrs, attr{"prodigy.attempt", e.Attempt})
		if e.Retry != nil && e.Retry.Alone {
			backoff = append(backoff, attr{"prodigy.alone", true})
		}
		if e.DelayMS != nil {
			backoff = append(backoff, attr{"prodigy.delay", time.Duration(*e.DelayMS).Seconds()})
		}
		i.note(r.Time, "backoff", backoff...)
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
	t.settle(e.ItemID, r.Time, e.Error, state)
}

// endAttempt ends the attempt at an item that runs, and its step.
func (t *tracer) endAttempt(id string, at time.Time, failure string, attrs ...attr) {
	t.close(atStep, id, at, "")
	t.close(atAttempt, id, at, failure, attrs...)
}

// settle closes the span of an item that has its outcome.
func (t *tracer) settle(id string, at time.Time, failure, state string) {
	t.endAttempt(id, at, failure)
	t.close(atItem, id, at, failure, attr{"prodigy.item.state", state})
	delete(t.items, id)
}
