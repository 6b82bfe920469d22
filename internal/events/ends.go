package events

import (
	"iter"
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/jobs"
	"prodigy/internal/limit"
	"prodigy/internal/retry"
)

// How is how an attempt ended, or an item for which nothing was run.
type How string

const (
	Succeeded How = "succeeded"
	Failed    How = "failed"
	Stopped   How = "interrupted"
	Lost      How = "lost" // with its worker
	Reused    How = "reused"

	// Superseded is one of two attempts at an item that ran at once, in logs of earlier versions.
	Superseded How = "superseded"
)

// GivenBack reports whether an attempt ended without an outcome, so that its item is as before it.
func (h How) GivenBack() bool { return h == Stopped || h == Lost || h == Superseded }

// An End is the end of an attempt, or what has become of an item without one.
type End struct {
	Item
	AgentID string // empty if nothing was run
	How     How
	Ran     bool // the attempt at the item ends with it; else nothing was run, or its work was not taken after its end
	Settles bool // the item has its outcome: no other attempt follows, and nothing has to be merged before
	Took    time.Duration
	Place

	Error string // of a failure; or why an attempt was stopped, or lost

	// Of a failure.
	Step   string
	Type   retry.Type
	Action errorpolicy.Action
}

// Status returns how the item is counted from then on; Pending if it has no outcome yet.
func (e End) Status() errorpolicy.Status {
	switch {
	case !e.Settles:
		return errorpolicy.Pending
	case e.How == Failed && e.Type == retry.TypeCircuitOpen && !e.Ran:
		return errorpolicy.Rejected
	case e.How == Failed:
		return e.Action.Status()
	}
	return errorpolicy.Succeeded
}

// EndOf returns the end that an event is. It reports false for other events.
func EndOf(e Event) (end End, ok bool) {
	switch e := e.(type) {
	case AgentCompleted:
		end = End{
			AgentID: e.AgentID, How: Succeeded, Ran: true, Settles: e.Commit == "", Took: time.Duration(e.DurationMS),
			Place: e.Place,
		}
	case AgentReused:
		end = End{How: Reused, Settles: true}
	case AgentFailed:
		end = End{
			AgentID: e.AgentID, How: Failed, Ran: e.AgentID != "" && !e.ErrorType.AfterAttempt(),
			Settles: !e.Action.RunsAgain(), Took: time.Duration(e.DurationMS), Place: e.Place,
			Error: e.Error, Step: e.Step, Type: e.ErrorType, Action: e.Action,
		}
	case AgentInterrupted:
		end = End{AgentID: e.AgentID, How: Stopped, Ran: true, Place: e.Place, Error: e.Reason}
	case AgentLost:
		end = End{AgentID: e.AgentID, How: Lost, Ran: true, Place: e.Place, Error: e.Reason}
	case AgentSuperseded:
		end = End{AgentID: e.AgentID, How: Superseded}
	default:
		return End{}, false
	}
	end.Item, _ = ItemOf(e)
	return end, true
}

// A Result is what the attempt that has ended leaves to those who read the results of items. Of a reused result it is
// what the attempt of the earlier job left.
type Result struct {
	End
	DurationMS Millis
	ExitCode   *int // nil where there was none: a signal, a timeout
	ItemOutput
	ItemFiles
}

// ResultOf returns the result that an event has of its item. It reports false for other events, and for ends of
// attempts that are given back.
func ResultOf(e Event) (r Result, ok bool) {
	switch e := e.(type) {
	case AgentCompleted:
		r = Result{
			DurationMS: e.DurationMS, ExitCode: &e.ExitCode, ItemOutput: e.ItemOutput, ItemFiles: e.ItemFiles,
		}
	case AgentReused:
		r = Result{
			DurationMS: e.DurationMS, ExitCode: &e.ExitCode, ItemOutput: e.ItemOutput, ItemFiles: e.ItemFiles,
		}
	case AgentFailed:
		r = Result{DurationMS: e.DurationMS, ExitCode: e.ExitCode, ItemOutput: e.ItemOutput}
	default:
		return Result{}, false
	}
	r.End, _ = EndOf(e)
	return r, true
}

// Settled yields the items that have their outcome with an event, and how each is counted from then on. Only a merge
// settles more than one.
func Settled(e Event) iter.Seq2[Item, errorpolicy.Status] {
	return func(yield func(Item, errorpolicy.Status) bool) {
		if end, ok := EndOf(e); ok && end.Settles {
			yield(end.Item, end.Status())
			return
		}
		merged, _ := e.(WorktreeMerged)
		for i, index := range merged.ItemIndexes {
			if !yield(Item{merged.ItemIDs[i], index, merged.Attempts[i]}, errorpolicy.Succeeded) {
				return
			}
		}
	}
}

// A RunEnd is the last word of a run.
type RunEnd struct {
	State   jobs.State
	Reason  string
	Took    time.Duration        // all runs of the job; 0 of a stopped one
	Metrics *errorpolicy.Metrics // nil of a stopped one
	Spent   *limit.Total
}

// RunEndOf returns the end of a run that an event is. It reports false for other events.
func RunEndOf(e Event) (RunEnd, bool) {
	switch e := e.(type) {
	case JobCompleted:
		return RunEnd{jobs.Completed, e.Reason, time.Duration(e.DurationMS), &e.Metrics, e.Spent}, true
	case JobFailed:
		return RunEnd{jobs.Failed, e.Reason, time.Duration(e.DurationMS), &e.Metrics, e.Spent}, true
	case JobCancelled:
		return RunEnd{jobs.Cancelled, e.Reason, time.Duration(e.DurationMS), &e.Metrics, e.Spent}, true
	case JobPaused:
		return RunEnd{State: jobs.Stopped, Reason: e.Reason}, true
	}
	return RunEnd{}, false
}
