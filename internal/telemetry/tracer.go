package telemetry

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/trace"

	"prodigy/internal/events"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
)

// tracer makes the spans and log records of a job from its log.
type tracer struct {
	spanner trace.Tracer
	logger  log.Logger

	// They count what the tracer makes.
	spans, logs *gate

	// What ends before this record is not exported.
	from int64

	// The number of the record that is being applied.
	seq int64

	jobID string

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

	// When the step of a phase began that runs, or runs next.
	stepBegan time.Time

	// The span that the record being applied is about. Its zero value stands for the span of the run.
	subject events.TraceContext
}

// span is a span that has not ended.
type span struct {
	trace.Span
	events.TraceContext
	began time.Time

	// Why what the span is about will have failed. It is empty if it has not.
	failure string
}

// note notes a record in a span, if that is open.
func (s *span) note(r events.Record, name string, attrs ...attribute.KeyValue) {
	if s != nil {
		s.AddEvent(name, trace.WithTimestamp(r.Time), trace.WithAttributes(append(attrsOf(r.Event), attrs...)...))
	}
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
	atWork // with the work of attempts, below the run, since it may be about many items
	atVerify
	atItem
	atAttempt
	atStep
)

// newTracer returns the tracer of a job. Parent is the traceparent that the job was started with.
func newTracer(jobID, parent string) *tracer {
	t := &tracer{
		jobID: jobID, job: events.TraceOfJob(jobID, parent), open: map[place]*span{}, items: map[string]int{},
	}
	t.parent, _ = events.ParseTrace(parent)
	return t
}

// interrupted is the attribute of a span that did not come to its end.
var interrupted = attribute.Bool("prodigy.interrupted", true)

// begin opens the span c at a place.
func (t *tracer) begin(
	l level, item string, c, parent events.TraceContext, name string, at time.Time, attrs ...attribute.KeyValue,
) {
	ctx := context.WithValue(within(context.Background(), parent), wanted{}, c)
	_, s := t.spanner.Start(ctx, name, trace.WithTimestamp(at), trace.WithAttributes(attrs...))
	t.open[place{l, item}] = &span{Span: s, TraceContext: c, began: at}
}

// end ends the span that is open at a place, if one is. Item is empty where it is about none.
func (t *tracer) end(l level, item string, at time.Time, failure string, attrs ...attribute.KeyValue) {
	p := place{l, item}
	s := t.open[p]
	if s == nil {
		return
	}
	delete(t.open, p)
	if l == atRun || l == atAttempt || l == atVerify {
		t.subject = s.TraceContext
	}
	if failure = cmp.Or(failure, s.failure); failure != "" {
		s.SetStatus(codes.Error, failure)
	}
	if !s.IsRecording() || t.seq < t.from {
		return // whoever started the job does not want to have it traced; or others have exported the span
	}
	if at.Before(s.began) { // the clock was set back
		at = s.began
	}
	s.SetAttributes(attrs...)
	t.spans.made()
	s.End(trace.WithTimestamp(at))
}

// find returns the span that is open at the first of some levels, or nil. Item is empty where it is about none.
func (t *tracer) find(item string, levels ...level) *span {
	for _, l := range levels {
		if s := t.open[place{l, item}]; s != nil {
			return s
		}
	}
	return nil
}

// run returns the span of the run, or the span of the job between two runs.
func (t *tracer) run() events.TraceContext {
	if s := t.find("", atRun); s != nil {
		return s.TraceContext
	}
	return t.job
}

// apply takes the next record of the log.
func (t *tracer) apply(r events.Record) {
	if events.BetweenRuns(r.Event) {
		return
	}
	t.subject, t.seq = events.TraceContext{}, r.Seq
	if t.stepBegan.IsZero() { // the log has lost its beginning
		t.stepBegan = r.Time
	}
	switch e := r.Event.(type) {
	case events.JobStarted:
		t.workflow = e.Workflow
		t.beginRun(r, "job", t.parent)
	case events.JobResumed:
		if t.find("", atRun) != nil { // it has no last record. What workers of a fleet still run goes on
			died := cmp.Or(e.Died, &r.Time)
			t.endRun(*died, "the run died", e.IsAttached, attribute.String("prodigy.outcome", "died"))
		}
		t.beginRun(r, "resume", t.job)
		if e.Phase != "map" && e.Phase != "" {
			t.beginPhase(r.Time, e.Phase)
		}
		t.stepsRun = e.StepsDone
	case events.PhaseStarted:
		if e.Phase != "map" {
			t.beginPhase(r.Time, e.Phase)
		}
	case events.PhaseCompleted:
		t.endPhase(r.Time, "")
	case events.StepCompleted:
		t.stepsRun = e.StepIndex
		if e.Skipped { // it has not begun
			t.find("", atPhase, atRun).note(r, "StepSkipped")
		} else {
			s := t.step("", e.Step)
			s.failure = ""
			if e.Failed {
				s.failure = "failed, but the failure was allowed"
			}
			t.end(atStep, "", r.Time, "", attrsOf(e)...)
		}
		t.stepsRun, t.stepBegan = t.stepsRun+1, r.Time
	case events.StepRetrying:
		t.step(e.ItemID, e.Step).note(r, "backoff", attribute.Int("prodigy.try", e.Attempt))
	case events.StepFailed:
		t.stepFailed(r, e)
	case events.AgentUsage:
		t.step(e.ItemID, e.Step).note(r, events.TypeOf(e))
	case events.AISessionStarted:
		t.step(e.ItemID, e.Step).note(r, events.TypeOf(e))
	case events.AgentPlaced, events.AgentStraggling, events.StepTurn, events.StepSkipped:
		t.find(events.Subject(e), atStep, atAttempt, atPhase, atRun).note(r, events.TypeOf(e))
	case events.AgentStarted:
		above := t.item(r).TraceContext
		t.endAttempt(e.ItemID, r.Time, "", interrupted) // one that died with its run
		t.begin(atAttempt, e.ItemID, t.job.Of("attempt", r.Seq), above, "attempt", r.Time, attrsOf(e)...)
	case events.AgentProgress: // only in logs with steps
		if a := t.find(e.ItemID, atAttempt); a != nil {
			t.end(atStep, e.ItemID, r.Time, "")
			t.begin(atStep, e.ItemID, a.Step(e.StepIndex), a.TraceContext, e.Step, r.Time)
		}
	case events.AgentSkipped:
		t.item(r)
		t.settle(e.ItemID, r.Time, "", "skipped")
	default:
		t.applyWork(r)
	}
	if end, ok := events.EndOf(r.Event); ok {
		t.ended(r, end)
	}
	if end, ok := events.RunEndOf(r.Event); ok {
		t.runEnded(r.Time, end)
	}
	t.tell(r)
}

// beginRun opens the span of a run, whose first record r is.
func (t *tracer) beginRun(r events.Record, what string, parent events.TraceContext) {
	c := t.job.Run(r.Seq)
	if c == parent {
		parent = t.parent // the log has lost its beginning
	}
	t.begin(atRun, "", c, parent, strings.TrimSpace(what+" "+t.workflow), r.Time, append(attrsOf(r.Event),
		attribute.String("prodigy.job.id", t.jobID), attribute.String("prodigy.workflow", t.workflow))...)
	t.stepBegan = r.Time
}

// runEnded ends a run with its last word. Only one that has failed, or was cancelled, is an error.
func (t *tracer) runEnded(at time.Time, end events.RunEnd) {
	m, state := end.Metrics, string(end.State)
	attrs := []attribute.KeyValue{
		attribute.String("prodigy.outcome", state), attribute.String("prodigy.reason", end.Reason),
	}
	failure := ""
	if m != nil {
		attrs = append(attrs, attribute.Int("prodigy.items.total", m.TotalItems),
			attribute.Int("prodigy.items.succeeded", m.Successful), attribute.Int("prodigy.items.failed", m.Failed),
			attribute.Int("prodigy.items.skipped", m.Skipped), attribute.Int("prodigy.items.rejected", m.Rejected))
		if end.State != jobs.Completed {
			failure = cmp.Or(end.Reason, state)
		}
	}
	t.endRun(at, failure, func(int) bool { return false }, attrs...)
}

// endRun ends the run, and what of it is open: that was interrupted, or waits for another run. Of the items those stay
// that goesOn reports true for, by their index.
func (t *tracer) endRun(at time.Time, failure string, goesOn func(index int) bool, attrs ...attribute.KeyValue) {
	ids := slices.SortedFunc(maps.Keys(t.items), func(a, b string) int { return t.items[a] - t.items[b] })
	for _, id := range ids {
		if !goesOn(t.items[id]) {
			t.endAttempt(id, at, "", interrupted)
			t.settle(id, at, "", "unfinished")
		}
	}
	t.endPhase(at, failure)
	t.end(atVerify, "", at, "", interrupted)
	t.end(atRun, "", at, failure, attrs...)
}

// beginPhase opens the span of a phase that runs once.
func (t *tracer) beginPhase(at time.Time, name string) {
	t.endPhase(at, "")
	t.stepsRun, t.stepBegan = 0, at
	t.begin(atPhase, "", t.run().Phase(name), t.run(), name, at)
}

// endPhase closes the span of the phase that runs, if one does. Failure is empty if it has not failed.
func (t *tracer) endPhase(at time.Time, failure string) {
	t.end(atStep, "", at, "", interrupted)
	t.end(atPhase, "", at, failure)
}

// step returns the step that runs: of an item, or else of the phase. Without one of an item it returns nil. Without a
// record of its beginning, a step of a phase began with the phase, or when the step before ended.
func (t *tracer) step(item, label string) *span {
	s := t.find(item, atStep, atAttempt)
	if item != "" || s != nil {
		return s
	}
	above := t.run()
	if phase := t.find("", atPhase); phase != nil {
		above = phase.TraceContext
	}
	t.begin(atStep, "", above.Step(t.stepsRun), above, label, t.stepBegan)
	return t.find("", atStep)
}

// stepFailed makes the span of a step a failed one, unless the job continues after the failure: then the span has
// an event. The span of a step of an item ends with its attempt, or the next step.
func (t *tracer) stepFailed(r events.Record, e events.StepFailed) {
	s := t.step(e.ItemID, e.Step)
	switch {
	case s == nil:
	case e.Action != "stop":
		s.note(r, events.TypeOf(e))
	case e.ItemID == "":
		t.end(atStep, "", r.Time, e.Error, attrsOf(e)...)
	default:
		s.failure = e.Error
		s.SetAttributes(attrsOf(e)...)
	}
}

// item opens the span of the item of a record, unless it is open.
func (t *tracer) item(r events.Record) *span {
	of, _ := events.ItemOf(r.Event)
	if t.find(of.ID, atItem) == nil {
		t.items[of.ID] = of.Index
		t.begin(atItem, of.ID, t.job.Of("item", r.Seq), t.run(), "item", r.Time,
			attribute.String("prodigy.item.id", of.ID), attribute.Int("prodigy.item.index", of.Index))
	}
	return t.find(of.ID, atItem)
}

// ended takes the end of an attempt, or of an item without one.
func (t *tracer) ended(r events.Record, end events.End) {
	attrs, failure := attrsOf(r.Event), ""
	switch {
	case end.How.GivenBack() && !end.Ran:
		return
	case end.How == events.Stopped:
		t.endAttempt(end.ID, r.Time, "", append(attrs, interrupted)...)
		return
	case end.How.GivenBack():
		t.endAttempt(end.ID, r.Time, cmp.Or(end.Error, "its worker was lost"), attrs...)
		return
	case end.How == events.Failed:
		failure = end.Error
	}
	i := t.item(r)
	if s := t.find(end.ID, atStep); s != nil {
		s.failure = cmp.Or(s.failure, failure)
	}
	t.endAttempt(end.ID, r.Time, failure, attrs...)
	switch {
	case !end.Settles && end.How == events.Failed:
		i.note(r, "backoff")
	case end.Settles && failure != "":
		t.settle(end.ID, r.Time, failure, end.Status().String(), attrs...)
	case end.Settles:
		t.settle(end.ID, r.Time, "", "succeeded", attrs...)
	}
}

// applyWork makes the spans of what is done for and with the work of attempts.
func (t *tracer) applyWork(r events.Record) {
	attrs := attrsOf(r.Event)
	did := func(l level, name string, took events.Millis) {
		t.end(l, "", r.Time, "", interrupted) // the log has lost its end
		t.begin(l, "", t.job.Of("work", r.Seq), t.run(), name, r.Time.Add(-time.Duration(took)), attrs...)
	}
	switch e := r.Event.(type) {
	case events.WorktreeCreated:
		did(atWork, "create workspace", e.DurationMS)
		t.end(atWork, "", r.Time, "")
	case events.WorktreeMerged:
		did(atWork, "merge", e.DurationMS)
		t.end(atWork, "", r.Time, "")
		for _, id := range e.ItemIDs {
			t.find(id, atItem).note(r, "merged")
			t.settle(id, r.Time, "", "succeeded")
		}
	case events.VerifyStarted:
		did(atVerify, "verify", 0)
	case events.VerifyCompleted:
		failure := ""
		if !e.Passed {
			failure = cmp.Or(e.Error, "failed")
		}
		t.end(atVerify, "", r.Time, failure, attrs...)
	}
}

// endAttempt ends the attempt at an item that runs, and its step.
func (t *tracer) endAttempt(id string, at time.Time, failure string, attrs ...attribute.KeyValue) {
	t.end(atStep, id, at, "")
	t.end(atAttempt, id, at, failure, attrs...)
}

// settle closes the span of an item that has its outcome.
func (t *tracer) settle(id string, at time.Time, failure, state string, attrs ...attribute.KeyValue) {
	t.endAttempt(id, at, failure)
	t.end(atItem, id, at, failure, append(attrs, attribute.String("prodigy.item.state", state))...)
	delete(t.items, id)
}

// tell makes the log record of an event that somebody may look for. Of others a span says all, or they happen to the
// steps of items that succeed.
func (t *tracer) tell(r events.Record) {
	said := events.Say(r)
	body := said.Clause()
	item, _ := events.ItemOf(r.Event)
	switch e := r.Event.(type) {
	case events.StepFailed:
		if e.ItemID != "" {
			return // its AgentFailed says so
		}
		body = e.Step + ": " + e.Error
	case events.StepRetrying, events.StepSkipped, events.AISessionStarted, events.AgentUsage:
		return
	case events.AgentStraggling, events.AgentEndedLate, events.SkipRequested:
		body = item.ID + ": " + said.Line()
	case events.AgentLost, events.AgentFailed:
		end, _ := events.EndOf(e)
		body = item.ID + ": " + end.Error
	default:
		if events.Subject(e) != "" {
			return
		}
	}
	if said.Text == "" || t.seq < t.from {
		return
	}
	var l log.Record
	l.SetTimestamp(r.Time)
	l.SetObservedTimestamp(r.Time)
	l.SetSeverity(severities[said.Grave])
	l.SetSeverityText(severities[said.Grave].String())
	l.SetEventName(events.TypeOf(r.Event))
	l.SetBody(attribute.StringValue(body))
	l.AddAttributes(append(attrsOf(r.Event), attribute.String("prodigy.job.id", t.jobID))...)
	t.logs.made()
	t.logger.Emit(within(context.Background(), cmp.Or(t.subject, t.run())), l)
}

var severities = map[events.Grave]log.Severity{
	events.Plain: log.SeverityInfo, events.Good: log.SeverityInfo,
	events.Odd: log.SeverityWarn, events.Bad: log.SeverityError,
}

// told are the fields of events that become attributes, by their keys in the log. What steps print is in none of them.
// Each is called prodigy and its key, unless attributeNames says otherwise.
var told = strings.Fields(`action alone base breaker_key commit consecutive_failures cost_usd deletions delay_ms error
	error_type exit_code from_job head insertions item_id item_ids item_index attempt key kind max_parallel mode model
	node outcome preset ran_ms reason resumed scope session_id signal step suspect tokens turns waited_ms worker`)

// attributeNames are the names of OpenTelemetry's conventions, as far as these have one, and those of prodigy.
var attributeNames = map[string]string{
	"error": "exception.message", "error_type": "error.type", "exit_code": "process.exit.code",
	"model": "gen_ai.response.model", "preset": "gen_ai.provider.name", "session_id": "gen_ai.conversation.id",
	"item_id": "prodigy.item.id", "item_index": "prodigy.item.index", "item_ids": "prodigy.items",
	"max_parallel": "prodigy.slots", "node": "prodigy.worker", "worker": "prodigy.slot",
	"breaker_key": "prodigy.breaker.key", "scope": "prodigy.breaker",
}

// attrsOf returns the attributes of an event: those of its fields that are not empty.
func attrsOf(e events.Event) (list []attribute.KeyValue) {
	v := reflect.ValueOf(e)
	for _, f := range reflect.VisibleFields(v.Type()) {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !slices.Contains(told, key) {
			continue
		}
		name := attribute.Key(cmp.Or(attributeNames[key], "prodigy."+strings.TrimSuffix(key, "_ms")))
		field := reflect.Indirect(v.FieldByIndex(f.Index))
		if !field.IsValid() {
			continue
		}
		switch x := field.Interface().(type) {
		case events.Millis:
			list = append(list, name.Float64(time.Duration(x).Seconds()))
			continue
		case limit.USD:
			list = append(list, name.Float64(float64(x)/float64(limit.Dollar)))
			continue
		case limit.Tokens:
			list = append(list, attribute.Int64("gen_ai.usage.input_tokens", x.Input+x.Cached),
				attribute.Int64("gen_ai.usage.output_tokens", x.Output))
			continue
		}
		switch {
		case field.Kind() == reflect.Slice:
			list = append(list, name.Int(field.Len()))
		case field.CanInt():
			list = append(list, name.Int64(field.Int()))
		case field.IsZero():
		case field.Kind() == reflect.Bool:
			list = append(list, name.Bool(true))
		case field.Kind() == reflect.String:
			list = append(list, name.String(field.String()))
		}
	}
	return list
}
