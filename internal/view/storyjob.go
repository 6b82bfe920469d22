package view

import (
	"fmt"
	"time"

	"prodigy/internal/duration"
	"prodigy/internal/events"
)

// tellJob adds what happened to the job, where it meant something to the item.
func (t *teller) tellJob(r events.Record) {
	switch e := r.Event.(type) {
	case events.CircuitOpen:
		t.opened(r, e)
	case events.CircuitClosed:
		t.closed(r, e)
	case events.JobPaused:
		t.over(r, Paused, "the job was stopped: "+e.Reason)
	case events.JobFailed:
		t.over(r, Failed, "the job failed: "+e.Reason)
	case events.JobCompleted:
		t.ended = Completed
	case events.JobResumed:
		t.resumed(r, e)
	}
}

func (t *teller) opened(r events.Record, e events.CircuitOpen) {
	if e.Scope != "workflow" {
		t.stepOpened(r, e)
		return
	}
	t.held, t.until = r.Time, e.Until
	if t.story.Status == Waiting {
		t.say(r, fmt.Sprintf("the circuit breaker opened after %d failures in a row", e.ConsecutiveFailures),
			"nothing starts before "+clock(e.Until))
	}
}

// stepOpened tells of a breaker of the step that the item is about to try again.
func (t *teller) stepOpened(r events.Record, e events.CircuitOpen) {
	if t.story.Status == InFlight && t.step == e.Scope {
		t.say(r, fmt.Sprintf("the circuit breaker of step %s opened after %d failures in a row", e.Scope, e.ConsecutiveFailures),
			"a try of the step before "+clock(e.Until)+" would be refused")
	}
}

func (t *teller) closed(r events.Record, e events.CircuitClosed) {
	if e.Scope != "workflow" {
		return
	}
	t.held, t.until = time.Time{}, time.Time{}
	if t.story.Status == Waiting {
		t.say(r, fmt.Sprintf("the circuit breaker closed after %d successes", e.Successes))
	}
}

// over tells of an end of the run that left the item without an end of its own.
func (t *teller) over(r events.Record, s State, text string) {
	t.ended = s
	switch t.story.Status {
	case Pending:
		t.say(r, text, "the item starts again with a resume")
	case Waiting:
		t.say(r, text, "the item keeps the time at which it is due")
	}
}

// resumed tells what a resume makes of an item without an end.
func (t *teller) resumed(r events.Record, e events.JobResumed) {
	crashed := t.ended == ""
	t.ended, t.budget.counts = "", true
	unfinished := t.story.Status == InFlight && crashed || t.story.Status == Waiting
	switch {
	case unfinished && t.letter:
		t.story.Status = DeadLetter
		t.say(r, "its retry from the dead letter queue did not come to an end; the job goes on", "it is a dead letter as before")
	case t.story.Status == InFlight && crashed:
		t.story.Status = Pending
		t.say(r, fmt.Sprintf("the run had died while attempt %d was running; the job goes on", t.attempt),
			fmt.Sprintf("how attempt %d ended is not known: it starts again as attempt %d, without using up a try", t.attempt, t.attempt+1))
	case t.story.Status == Pending:
		t.say(r, "the job goes on, and the item starts again")
	case t.story.Status == Waiting:
		why := "it is due now"
		if wait := t.due.Sub(r.Time); wait > 0 {
			why = "it keeps its time: due in " + duration.Format(wait.Round(time.Millisecond))
		}
		t.say(r, "the job goes on", why)
	}
}

// now says where the item is.
func (t *teller) now() string {
	switch t.story.Status {
	case Unseen:
		return "not started yet"
	case InFlight:
		return fmt.Sprintf("attempt %d is running, or was running when prodigy died", t.attempt)
	case Pending:
		return "it waits for the job to be resumed, or for a free slot"
	case Waiting:
		return "it waits for its next attempt, due at " + t.due.Local().Format("2006-01-02 15:04:05")
	case Succeeded:
		return "done: it succeeded"
	case DeadLetter:
		return "it is a dead letter"
	case Rejected:
		return "it is a dead letter that was never run"
	case Skipped:
		return "done: it was skipped"
	case Evicted:
		return "it was deleted from the dead letter queue"
	}
	panic("BUG: an item in a state that is none: " + string(t.story.Status))
}
