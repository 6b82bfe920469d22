// Package telemetry turns the log of a job into what OpenTelemetry knows: the spans of a trace, and log
// records.
//
// A [Tracer] is a fold over the records: the same log gives the same spans, with the same names (see
// events.TraceContext), whoever reads it and whenever. What sends them is in package otlp.
package telemetry

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
)

// Span is a span that has ended.
type Span struct {
	Context events.TraceContext
	Parent  events.TraceContext // the zero Context: it has none
	Name    string              // one of few: what tells spans apart is in the attributes
	Begin   time.Time
	End     time.Time
	Attrs   []Attr
	Events  []Event
	Error   string // empty: it did not fail
}

// Event is something that happened during a span.
type Event struct {
	Name  string
	Time  time.Time
	Attrs []Attr
}

// Attr is an attribute. Value is a string, int, float64, or bool.
type Attr struct {
	Key   string
	Value any
}

// Log is a log record.
type Log struct {
	Context  events.TraceContext // the span that it belongs to
	Time     time.Time
	Severity Severity
	Name     string // the type of the event
	Body     string
	Attrs    []Attr
}

// Severity is how severe a Log is, as in the data model of OpenTelemetry.
type Severity int

const (
	Info  Severity = 9
	Warn  Severity = 13
	Error Severity = 17
)

// Tracer makes the spans and log records of a job.
type Tracer struct {
	Span func(Span) // called with each span when it ends
	Log  func(Log)

	job      events.TraceContext
	parent   events.TraceContext // of the job
	workflow string
	run      *open
	phase    *open
	step     *open // of the phase, or of a standard workflow
	stepsRun int   // of the phase: steps that are done
	verify   *open // of workspaces
	items    map[int]*item
	byID     map[string]*item
	subject  events.TraceContext // the span that the record being applied is about; the zero Context: that of the run
}

// open is a span that has not ended.
type open struct {
	Span
}

// item is an item that runs, or waits for its next attempt.
type item struct {
	open
	id      string
	attempt *open
	step    *open
	kept    bool // it goes on though the run has ended
}

// NewTracer returns the Tracer of a job. Parent is the traceparent that the job was started with.
func NewTracer(jobID, parent string) *Tracer {
	t := &Tracer{job: events.TraceOfJob(jobID, parent), items: map[int]*item{}, byID: map[string]*item{}}
	t.parent, _ = events.ParseTrace(parent)
	return t
}

// Apply takes the next record of the log.
func (t *Tracer) Apply(r events.Record) {
	if events.BetweenRuns(r.Event) {
		return
	}
	t.subject = events.TraceContext{}
	switch e := r.Event.(type) {
	case events.JobStarted:
		t.workflow = e.Workflow
		t.begin(r, "job "+e.Workflow, t.parent, Attr{"prodigy.mode", e.Mode}, Attr{"prodigy.slots", e.MaxParallel})
	case events.JobResumed:
		t.died(r, e)
		t.begin(r, "resume "+t.workflow, t.job, Attr{"prodigy.reason", e.Reason})
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
		t.during(r.Time, e.ItemID, e.Step, "agent session", Attr{"gen_ai.provider.name", e.Preset},
			Attr{"gen_ai.conversation.id", e.SessionID}, Attr{"prodigy.resumed", e.Resumed})
	case events.StepTurn:
		t.during(r.Time, e.ItemID, e.Step, "turn", Attr{"prodigy.key", e.Key},
			Attr{"prodigy.waited", time.Duration(e.WaitedMS).Seconds()})
	case events.StepSkipped:
		t.during(r.Time, e.ItemID, "", "step skipped", Attr{"prodigy.step", e.Step})
	default:
		t.applyItem(r)
	}
	if end, ok := events.RunEndOf(r.Event); ok {
		t.runEnded(r.Time, end)
	}
	t.say(r)
}

// runEnded ends a run with its last word. Only one that has failed, or was cancelled, is an error.
func (t *Tracer) runEnded(at time.Time, end events.RunEnd) {
	m := end.Metrics
	if m == nil {
		t.end(at, "", []Attr{{"prodigy.outcome", end.State}, {"prodigy.reason", end.Reason}})
		return
	}
	failure := ""
	if end.State != "completed" {
		failure = cmp.Or(end.Reason, end.State)
	}
	t.end(at, failure, []Attr{
		{"prodigy.outcome", end.State},
		{"prodigy.items.total", m.TotalItems},
		{"prodigy.items.succeeded", m.Successful},
		{"prodigy.items.failed", m.Failed},
		{"prodigy.items.skipped", m.Skipped},
		{"prodigy.items.rejected", m.Rejected},
	})
}

func (t *Tracer) begin(r events.Record, name string, parent events.TraceContext, attrs ...Attr) {
	attrs = append([]Attr{{"prodigy.job.id", r.JobID}, {"prodigy.workflow", t.workflow}}, attrs...)
	c := t.job.Run(r.Seq)
	if c == parent {
		parent = t.parent // the log has lost its beginning
	}
	t.run = &open{Span{Context: c, Parent: parent, Name: strings.TrimSpace(name), Begin: r.Time, Attrs: attrs}}
}

// close ends a span that is open.
func (t *Tracer) close(o *open, at time.Time, failure string, attrs ...Attr) {
	o.End, o.Error = at, failure
	if o.End.Before(o.Begin) { // the clock was set back
		o.End = o.Begin
	}
	o.Attrs = append(o.Attrs, attrs...)
	t.Span(o.Span)
}

// end ends the run, and what of it is open: that was interrupted, or waits for another run.
func (t *Tracer) end(at time.Time, failure string, attrs []Attr) {
	for _, index := range slices.Sorted(maps.Keys(t.items)) {
		i := t.items[index]
		if i.kept {
			i.kept = false
			continue
		}
		t.endAttempt(i, at, "", Attr{"prodigy.interrupted", true})
		t.close(&i.open, at, "", Attr{"prodigy.item.state", "unfinished"})
		t.forget(index)
	}
	t.endPhase(at, failure)
	if t.verify != nil {
		t.close(t.verify, at, "", Attr{"prodigy.interrupted", true})
		t.verify = nil
	}
	if t.run != nil {
		t.subject = t.run.Context
		t.close(t.run, at, failure, attrs...)
		t.run = nil
	}
}

// died ends a run without a last record. What workers of a fleet still run goes on.
func (t *Tracer) died(r events.Record, e events.JobResumed) {
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
	t.end(at, "the run died", []Attr{{"prodigy.outcome", "died"}})
}

func (t *Tracer) beginPhase(at time.Time, name string, done int) {
	t.endPhase(at, "")
	t.stepsRun = done
	run := t.runContext()
	t.phase = &open{Span{Context: run.Phase(name), Parent: run, Name: name, Begin: at}}
}

func (t *Tracer) endPhase(at time.Time, failure string) {
	if t.step != nil && len(t.step.Events) > 0 { // it had failed tries and no end
		t.close(t.step, at, "", Attr{"prodigy.interrupted", true})
	}
	t.step = nil
	if t.phase != nil {
		t.close(t.phase, at, failure)
		t.phase = nil
	}
}

// runContext returns the span of the run; that of the job while there is none.
func (t *Tracer) runContext() events.TraceContext {
	if t.run == nil {
		return t.job
	}
	return t.run.Context
}

// phaseStep returns the step of the phase that runs. Without a record of its beginning it began with the
// phase, or when the step before ended.
func (t *Tracer) phaseStep(label string, at time.Time) *open {
	if t.step == nil {
		above := &open{Span{Context: t.job, Begin: at}}
		if t.run != nil {
			above = t.run
		}
		if t.phase != nil {
			above = t.phase
		}
		t.step = &open{Span{
			Context: above.Context.Step(t.stepsRun), Parent: above.Context, Begin: above.Begin,
			Name: label,
		}}
	}
	t.step.Name = label
	return t.step
}

func (t *Tracer) stepCompleted(at time.Time, e events.StepCompleted) {
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
	t.close(s, at, failure, Attr{"prodigy.step.kind", e.Kind}, Attr{"process.exit.code", e.ExitCode})
}

// findStep returns the step that runs: of an item, or else of the phase. It returns nil when there is none.
func (t *Tracer) findStep(itemID, label string, at time.Time) *open {
	if itemID == "" {
		return t.phaseStep(label, at)
	}
	if i := t.byID[itemID]; i != nil {
		return cmp.Or(i.step, i.attempt)
	}
	return nil
}

func (t *Tracer) stepRetrying(at time.Time, e events.StepRetrying) {
	if s := t.findStep(e.ItemID, e.Step, at); s != nil {
		s.Events = append(s.Events, Event{"backoff", at, []Attr{
			{"prodigy.try", e.Attempt}, {"error.type", string(e.ErrorType)}, {
				"exception.message",
				e.Error,
			}, {"prodigy.delay", time.Duration(e.DelayMS).Seconds()},
		}})
	}
}

func (t *Tracer) stepFailed(at time.Time, e events.StepFailed) {
	s := t.findStep(e.ItemID, e.Step, at)
	if s == nil {
		return
	}
	attrs := []Attr{{"error.type", string(e.ErrorType)}, {"prodigy.tries", e.Attempts}}
	if e.ExitCode != nil {
		attrs = append(attrs, Attr{"process.exit.code", *e.ExitCode})
	}
	if e.Action != "stop" {
		s.Events = append(s.Events, Event{
			"step failed", at,
			append(attrs, Attr{"exception.message", e.Error}, Attr{"prodigy.action", e.Action}),
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

func (t *Tracer) used(at time.Time, e events.AgentUsage) {
	s := t.findStep(e.ItemID, e.Step, at)
	if s == nil {
		return
	}
	attrs := []Attr{
		{"gen_ai.provider.name", e.Preset},
		{"prodigy.agent.outcome", e.Outcome},
		{"prodigy.agent.turns", e.Turns},
	}
	if e.Model != "" {
		attrs = append(attrs, Attr{"gen_ai.response.model", e.Model})
	}
	if e.Tokens != nil {
		attrs = append(attrs, Attr{"gen_ai.usage.input_tokens", int(e.Tokens.Input + e.Tokens.Cached)},
			Attr{"gen_ai.usage.output_tokens", int(e.Tokens.Output)})
	}
	if e.CostUSD != nil {
		attrs = append(attrs, Attr{"prodigy.agent.cost_usd", float64(*e.CostUSD) / 1e9})
	}
	s.Events = append(s.Events, Event{"agent usage", at, attrs})
}

// during notes what happened during the step of an item that runs, or else of a phase; a step of a phase has
// not begun if label is empty.
func (t *Tracer) during(at time.Time, itemID, label, name string, attrs ...Attr) {
	var s *open
	if itemID == "" && label == "" {
		s = cmp.Or(t.phase, t.run)
	} else {
		s = t.findStep(itemID, label, at)
	}
	if s != nil {
		s.Events = append(s.Events, Event{name, at, attrs})
	}
}

// item returns the item of a record, which begins with it unless it is open.
func (t *Tracer) item(r events.Record, index int, id string) *item {
	if i := t.items[index]; i != nil {
		return i
	}
	i := &item{id: id, open: open{Span{
		Context: t.job.Item(r.Seq), Parent: t.runContext(), Name: "item", Begin: r.Time,
		Attrs: []Attr{{"prodigy.item.id", id}, {"prodigy.item.index", index}},
	}}}
	t.items[index], t.byID[id] = i, i
	return i
}

func (t *Tracer) applyItem(r events.Record) {
	switch e := r.Event.(type) {
	case events.AgentStarted:
		i := t.item(r, e.ItemIndex, e.ItemID)
		t.endAttempt(i, r.Time, "", Attr{"prodigy.interrupted", true})
		i.attempt = &open{Span{
			Context: t.job.Attempt(r.Seq), Parent: i.Context, Name: "attempt", Begin: r.Time,
			Attrs: []Attr{{"prodigy.item.id", e.ItemID}, {"prodigy.attempt", e.Attempt}, {"prodigy.slot", e.Worker}},
		}}
		if e.Key != "" {
			i.attempt.Attrs = append(i.attempt.Attrs, Attr{"prodigy.key", e.Key})
		}
		if e.BreakerKey != "" {
			i.attempt.Attrs = append(i.attempt.Attrs, Attr{"prodigy.breaker.key", e.BreakerKey})
		}
		if e.Alone || e.Suspect {
			i.attempt.Attrs = append(i.attempt.Attrs, Attr{"prodigy.alone", true})
		}
	case events.AgentStraggling:
		if i := t.items[e.ItemIndex]; i != nil && i.attempt != nil {
			i.attempt.Attrs = append(i.attempt.Attrs, Attr{"prodigy.straggler", true})
		}
	case events.AgentPlaced:
		if i := t.items[e.ItemIndex]; i != nil && i.attempt != nil {
			i.attempt.Attrs = append(i.attempt.Attrs, Attr{"prodigy.worker", e.Node})
		}
	case events.AgentProgress:
		t.progress(r.Time, e)
	case events.AgentCompleted:
		i := t.item(r, e.ItemIndex, e.ItemID)
		t.endAttempt(i, r.Time, "", Attr{"process.exit.code", e.ExitCode})
		if e.Commit == "" {
			t.settle(e.ItemIndex, r.Time, "", "succeeded")
		}
	case events.AgentFailed:
		t.failed(r, e)
	case events.AgentInterrupted:
		if i := t.items[e.ItemIndex]; i != nil {
			t.endAttempt(i, r.Time, "", Attr{"prodigy.interrupted", true})
		}
	case events.AgentLost:
		if i := t.items[e.ItemIndex]; i != nil {
			t.endAttempt(i, r.Time, cmp.Or(e.Reason, "its worker was lost"))
		}
	case events.AgentReused:
		i := t.item(r, e.ItemIndex, e.ItemID)
		i.Attrs = append(i.Attrs, Attr{"prodigy.reused.job", e.FromJob})
		t.settle(e.ItemIndex, r.Time, "", "succeeded")
	case events.AgentSkipped:
		t.item(r, e.ItemIndex, e.ItemID)
		t.settle(e.ItemIndex, r.Time, "", "skipped")
	default:
		t.applyWorkspaces(r)
	}
}

// applyWorkspaces makes the spans of what is done for and with the work of attempts. They are below the run,
// since they may be about many items.
func (t *Tracer) applyWorkspaces(r events.Record) {
	work := func(name string, took events.Millis, attrs ...Attr) *open {
		return &open{Span{
			Context: t.job.Work(r.Seq), Parent: t.runContext(), Name: name,
			Begin: r.Time.Add(-time.Duration(took)), Attrs: attrs,
		}}
	}
	switch e := r.Event.(type) {
	case events.WorktreeCreated:
		attrs := []Attr{{"prodigy.slot", e.Worker}, {"prodigy.base", e.Base}}
		if e.Node != "" {
			attrs = append(attrs, Attr{"prodigy.worker", e.Node})
		}
		t.close(work("create workspace", e.DurationMS, attrs...), r.Time, "")
	case events.WorktreeMerged:
		t.close(work("merge", e.DurationMS, Attr{"prodigy.items", len(e.ItemIDs)}, Attr{"prodigy.head", e.Head},
			Attr{"prodigy.insertions", e.Insertions}, Attr{"prodigy.deletions", e.Deletions}), r.Time, "")
		for n, index := range e.ItemIndexes {
			i := t.item(r, index, e.ItemIDs[n])
			i.Events = append(i.Events, Event{"merged", r.Time, []Attr{{"prodigy.head", e.Head}}})
			t.settle(index, r.Time, "", "succeeded")
		}
	case events.VerifyStarted:
		if t.verify != nil { // the log has lost its end
			t.close(t.verify, r.Time, "", Attr{"prodigy.interrupted", true})
		}
		t.verify = work("verify", 0, Attr{"prodigy.items", len(e.ItemIDs)}, Attr{"prodigy.commit", e.Commit})
	case events.VerifyCompleted:
		if t.verify == nil {
			return
		}
		v, failure := t.verify, ""
		if t.verify = nil; !e.Passed {
			failure = cmp.Or(e.Error, "failed")
			v.Attrs = append(v.Attrs, Attr{"prodigy.step", e.Step})
		}
		t.subject = v.Context
		t.close(v, r.Time, failure)
	}
}

func (t *Tracer) progress(at time.Time, e events.AgentProgress) {
	i := t.byID[e.ItemID]
	if i == nil || i.attempt == nil {
		return
	}
	if i.step != nil {
		t.close(i.step, at, i.step.Error)
	}
	i.step = &open{Span{
		Context: i.attempt.Context.Step(e.StepIndex), Parent: i.attempt.Context, Name: e.Step,
		Begin: at,
	}}
}

func (t *Tracer) failed(r events.Record, e events.AgentFailed) {
	i := t.item(r, e.ItemIndex, e.ItemID)
	attrs := []Attr{{"error.type", string(e.ErrorType)}, {"prodigy.action", string(e.Action)}}
	if i.attempt != nil {
		ended := slices.Clone(attrs)
		if e.ExitCode != nil {
			ended = append(ended, Attr{"process.exit.code", *e.ExitCode})
		}
		if e.Signal != "" {
			ended = append(ended, Attr{"prodigy.signal", e.Signal})
		}
		if i.step != nil && i.step.Error == "" {
			i.step.Error = e.Error
		}
		t.endAttempt(i, r.Time, e.Error, ended...)
	}
	if e.Action.RunsAgain() {
		backoff := append(attrs, Attr{"prodigy.attempt", e.Attempt})
		if e.Retry != nil && e.Retry.Alone {
			backoff = append(backoff, Attr{"prodigy.alone", true})
		}
		if e.DelayMS != nil {
			backoff = append(backoff, Attr{"prodigy.delay", time.Duration(*e.DelayMS).Seconds()})
		}
		i.Events = append(i.Events, Event{"backoff", r.Time, backoff})
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
func (t *Tracer) endAttempt(i *item, at time.Time, failure string, attrs ...Attr) {
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

func (t *Tracer) settle(index int, at time.Time, failure, state string) {
	i := t.items[index]
	t.endAttempt(i, at, failure)
	t.close(&i.open, at, failure, Attr{"prodigy.item.state", state})
	t.forget(index)
}

// forget removes an item whose span has ended.
func (t *Tracer) forget(index int) {
	delete(t.byID, t.items[index].id)
	delete(t.items, index)
}
