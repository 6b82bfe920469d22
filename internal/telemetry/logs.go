package telemetry

import (
	"cmp"

	"prodigy/internal/events"
)

// say makes the log record of an event that somebody may look for. The steps of items that succeed are not told.
func (t *Tracer) say(r events.Record) {
	said := events.Say(r)
	body := said.Clause()
	item, ofItem := events.ItemOf(r.Event)
	switch e := r.Event.(type) {
	case events.JobStarted, events.JobResumed, events.JobCompleted, events.JobFailed, events.JobCancelled,
		events.JobPaused, events.PhaseSkipped,
		events.BudgetReached, events.QuotaPaused, events.QuotaResumed, events.ConcurrencyChanged, events.RolloutStage, events.RolloutHeld,
		events.RetriesHeld, events.RetriesAllowed, events.StartsHeld, events.StartsAllowed, events.CircuitOpen, events.CircuitHalfOpen,
		events.CircuitClosed, events.PauseRequested, events.ContinueRequested, events.DrainRequested, events.CancelRequested,
		events.ScaleRequested, events.RetryNowRequested, events.VerifyCompleted, events.WorktreeCleaned:
	case events.AgentStraggling, events.AgentEndedLate, events.SkipRequested:
		body = item.ID + ": " + said.Line()
	case events.AgentLost:
		body = item.ID + ": " + e.Reason
	case events.AgentFailed:
		body = item.ID + ": " + e.Error
	case events.StepFailed:
		if e.ItemID != "" {
			return // its AgentFailed says so
		}
		body = e.Step + ": " + e.Error
	default:
		return
	}
	if said.Text == "" {
		return // a span says it
	}
	attrs := attrsOf(r.Event)
	if ofItem {
		of := []Attr{{"prodigy.item.id", item.ID}}
		if item.Attempt > 0 {
			of = append(of, Attr{"prodigy.attempt", item.Attempt})
		}
		attrs = append(of, attrs...)
	}
	t.Log(Log{
		Context: cmp.Or(t.subject, t.runContext()), Time: r.Time, Severity: severities[said.Grave], Name: events.TypeOf(r.Event), Body: body, Attrs: attrs,
	})
}

var severities = map[events.Grave]Severity{events.Plain: Info, events.Good: Info, events.Odd: Warn, events.Bad: Error}

// attrsOf returns what an event has besides its item.
func attrsOf(e events.Event) []Attr {
	switch e := e.(type) {
	case events.AgentFailed:
		return []Attr{
			{"error.type", string(e.ErrorType)},
			{"prodigy.action", string(e.Action)},
			{"prodigy.step", e.Step},
		}
	case events.StepFailed:
		return []Attr{{"prodigy.step", e.Step}, {"error.type", string(e.ErrorType)}, {"prodigy.action", e.Action}}
	case events.ConcurrencyChanged:
		return []Attr{{"prodigy.slots", e.Limit}}
	case events.VerifyCompleted:
		return []Attr{{"prodigy.step", e.Step}, {"prodigy.commit", e.Commit}}
	case events.WorktreeCleaned:
		return []Attr{{"prodigy.slot", e.Worker}}
	}
	scope, t, ok := events.Transition(e)
	if !ok {
		return nil
	}
	attrs := []Attr{{"prodigy.breaker", scope}, {"prodigy.key", t.Key}}
	if _, opened := e.(events.CircuitOpen); opened {
		attrs = append(attrs, Attr{"prodigy.failures", t.ConsecutiveFailures})
	}
	return attrs
}
