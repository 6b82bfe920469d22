package telemetry

import (
	"time"

	"go.opentelemetry.io/otel/log"

	"prodigy/internal/events"
)

// logRecord is a log record.
type logRecord struct {
	// The span that the record belongs to. logRecordOf leaves it empty, since the tracer knows it.
	Context events.TraceContext

	Time     time.Time
	Severity log.Severity

	// The type of the event, such as AgentFailed.
	Name string

	Body  string
	Attrs []attr
}

// logRecordOf returns the log record of an event that somebody may look for, without its span. It reports false for
// other events: a span says them, or they happen to the steps of items that succeed.
func logRecordOf(r events.Record) (logRecord, bool) {
	said := events.Say(r)
	body := said.Clause()
	item, ofItem := events.ItemOf(r.Event)
	switch e := r.Event.(type) {
	case events.StepFailed:
		if e.ItemID != "" {
			return logRecord{}, false // its AgentFailed says so
		}
		body = e.Step + ": " + e.Error
	case events.StepRetrying, events.StepSkipped, events.AISessionStarted, events.AgentUsage:
		return logRecord{}, false
	case events.AgentStraggling, events.AgentEndedLate, events.SkipRequested:
		body = item.ID + ": " + said.Line()
	case events.AgentLost, events.AgentFailed:
		end, _ := events.EndOf(e)
		body = item.ID + ": " + end.Error
	default:
		if events.Subject(e) != "" {
			return logRecord{}, false
		}
	}
	if said.Text == "" {
		return logRecord{}, false
	}
	attrs := attrsOf(r.Event)
	if ofItem {
		of := []attr{{"prodigy.item.id", item.ID}}
		if item.Attempt > 0 {
			of = append(of, attr{"prodigy.attempt", item.Attempt})
		}
		attrs = append(of, attrs...)
	}
	return logRecord{
		Time: r.Time, Severity: severities[said.Grave], Name: events.TypeOf(r.Event), Body: body, Attrs: attrs,
	}, true
}

var severities = map[events.Grave]log.Severity{
	events.Plain: log.SeverityInfo, events.Good: log.SeverityInfo,
	events.Odd: log.SeverityWarn, events.Bad: log.SeverityError,
}

// attrsOf returns the attributes of an event besides those of its item. Most events have none: their sentence says
// all.
func attrsOf(e events.Event) []attr {
	switch e := e.(type) {
	case events.AgentFailed:
		return []attr{
			{"error.type", string(e.ErrorType)},
			{"prodigy.action", string(e.Action)},
			{"prodigy.step", e.Step},
		}
	case events.StepFailed:
		return []attr{{"prodigy.step", e.Step}, {"error.type", string(e.ErrorType)}, {"prodigy.action", e.Action}}
	}
	scope, t, ok := events.Transition(e)
	if !ok {
		return nil
	}
	attrs := []attr{{"prodigy.breaker", scope}, {"prodigy.key", t.Key}}
	if _, opened := e.(events.CircuitOpen); opened {
		attrs = append(attrs, attr{"prodigy.failures", t.ConsecutiveFailures})
	}
	return attrs
}

// attr is an attribute. Value is a string, int, float64, or bool.
type attr struct {
	Key   string
	Value any
}
