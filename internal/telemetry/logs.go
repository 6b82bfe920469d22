package telemetry

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"prodigy/internal/duration"
	"prodigy/internal/events"
)

// say makes the log record of an event that somebody may look for. The steps of items that succeed are none.
func (t *Tracer) say(r events.Record) {
	l := Log{Context: cmp.Or(t.subject, t.runContext()), Time: r.Time, Severity: Info, Name: events.TypeOf(r.Event)}
	switch e := r.Event.(type) {
	case events.JobStarted:
		l.Body = "the job has begun"
	case events.JobResumed:
		l.Body = fmt.Sprintf("the job continues: %d done, %d to go", e.Completed, e.Pending+e.InFlight)
	case events.JobCompleted:
		l.Body = fmt.Sprintf("completed: %d succeeded, %d failed, %d skipped", e.Metrics.Successful, e.Metrics.Failed+e.Metrics.Rejected, e.Metrics.Skipped)
	case events.JobFailed:
		l.Severity, l.Body = Error, "failed: "+e.Reason
	case events.JobCancelled:
		l.Severity, l.Body = Warn, "cancelled: "+e.Reason
	case events.JobPaused:
		l.Severity, l.Body = Warn, "paused: "+e.Reason
	case events.AgentFailed:
		l.Severity, l.Body = Error, e.ItemID+": "+e.Error
		if e.Action.RunsAgain() {
			l.Severity = Warn
		}
		l.Attrs = []Attr{{"prodigy.item.id", e.ItemID}, {"prodigy.attempt", e.Attempt}, {"error.type", string(e.ErrorType)}, {"prodigy.action", string(e.Action)}, {"prodigy.step", e.Step}}
	case events.AgentStraggling:
		l.Severity, l.Body = Warn, e.ItemID+": attempt "+strconv.Itoa(e.Attempt)+" is a straggler: "+e.Words()
		l.Attrs = []Attr{{"prodigy.item.id", e.ItemID}, {"prodigy.attempt", e.Attempt}}
	case events.AgentLost:
		l.Severity, l.Body = Warn, e.ItemID+": "+e.Reason
		l.Attrs = []Attr{{"prodigy.item.id", e.ItemID}, {"prodigy.attempt", e.Attempt}}
	case events.AgentEndedLate:
		l.Body = fmt.Sprintf("%s: attempt %d has ended on %s after it was given up: %s", e.ItemID, e.Attempt, e.Node, e.Outcome)
		l.Attrs = []Attr{{"prodigy.item.id", e.ItemID}, {"prodigy.attempt", e.Attempt}}
	case events.StepFailed:
		if e.ItemID != "" {
			return // its AgentFailed says so
		}
		l.Severity, l.Body = Error, e.Step+": "+e.Error
		l.Attrs = []Attr{{"prodigy.step", e.Step}, {"error.type", string(e.ErrorType)}, {"prodigy.action", e.Action}}
	case events.CircuitOpen:
		l.Severity, l.Body = Warn, "the circuit breaker of "+e.Scope+" is open"
		l.Attrs = []Attr{{"prodigy.breaker", e.Scope}, {"prodigy.key", e.Key}, {"prodigy.failures", e.ConsecutiveFailures}}
	case events.CircuitHalfOpen:
		l.Body = "the circuit breaker of " + e.Scope + " is half-open"
		l.Attrs = []Attr{{"prodigy.breaker", e.Scope}, {"prodigy.key", e.Key}}
	case events.CircuitClosed:
		l.Body = "the circuit breaker of " + e.Scope + " is closed"
		l.Attrs = []Attr{{"prodigy.breaker", e.Scope}, {"prodigy.key", e.Key}}
	case events.ConcurrencyChanged:
		l.Body = e.Words() + ": " + e.Reason
		l.Attrs = []Attr{{"prodigy.slots", e.Limit}}
	case events.StartsHeld:
		l.Severity, l.Body = Warn, "nothing starts: "+e.Reason
	case events.StartsAllowed:
		l.Body = "what was held back by " + e.By + " starts again"
	case events.RolloutHeld:
		l.Severity, l.Body = Error, "the rollout is held: "+e.Reason
	case events.RolloutStage:
		l.Body = e.Words()
	case events.RetriesHeld:
		l.Severity, l.Body = Warn, e.Words()
	case events.RetriesAllowed:
		l.Body = "no retry waits for first attempts any more"
	case events.RetryNowRequested:
		l.Body = "what waits for its next attempt goes on now, by " + e.By
	case events.PhaseSkipped:
		l.Body = e.Phase + " is left out: " + e.Reason
	case events.VerifyCompleted:
		if e.Passed {
			return // its span says so
		}
		l.Severity, l.Body = Warn, "verify: "+cmp.Or(e.Error, "failed")
		l.Attrs = []Attr{{"prodigy.step", e.Step}, {"prodigy.commit", e.Commit}}
	case events.WorktreeCleaned:
		if e.Worker == 0 {
			return // all of them, at the end of the job
		}
		l.Body = fmt.Sprintf("the workspace of slot %d is deleted: %s", e.Worker, e.Reason)
		l.Attrs = []Attr{{"prodigy.slot", e.Worker}}
	case events.BudgetReached:
		l.Severity, l.Body = Error, "the budget is spent"
	case events.QuotaPaused:
		l.Severity, l.Body = Warn, "agents of "+e.Gate()+" wait for "+duration.Format(e.Until.Sub(r.Time).Round(time.Second))
	case events.QuotaResumed:
		l.Body = "agents of " + e.Gate() + " come through again"
	case events.PauseRequested:
		l.Severity, l.Body = Warn, "paused by "+e.By
	case events.ContinueRequested:
		l.Body = "continued by " + e.By
	case events.DrainRequested:
		l.Severity, l.Body = Warn, "drained by "+e.By
	case events.CancelRequested:
		l.Severity, l.Body = Warn, "cancelled by "+e.By
	case events.ScaleRequested:
		l.Body = e.Words()
	case events.SkipRequested:
		l.Body = e.ItemID + " is to be skipped, by " + e.By
		l.Attrs = []Attr{{"prodigy.item.id", e.ItemID}}
	default:
		return
	}
	t.Log(l)
}
