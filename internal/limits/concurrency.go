package limits

import (
	"time"

	"prodigy/internal/events"
	"prodigy/internal/limit"
	"prodigy/internal/retry"
)

// Concurrency holds back what needs a slot while as many agents run as a service takes. Pace is the same for how many
// start in a second.
type Concurrency struct {
	Service *limit.Adaptive `json:"service"`
	Untold  []limit.Change  `json:"untold,omitempty"` // changes that the log does not say yet
}

// Admit implements Limit.
func (l *Concurrency) Admit(a Ask) Verdict { return WaitWhile(a.Busy >= l.Service.AtOnce()) }

// Tell implements Teller.
func (l *Concurrency) Tell() events.Event {
	if len(l.Untold) == 0 {
		return nil
	}
	c := l.Untold[0]
	return events.ConcurrencyChanged{Limit: c.Limit, Before: c.Before, Rate: c.Rate, Reason: c.Reason}
}

// Apply implements Limit.
func (l *Concurrency) Apply(r events.Record, was Job) {
	if !l.Service.Limits() {
		return
	}
	switch e := r.Event.(type) {
	case events.AgentStarted, events.AgentDuplicated:
		l.Service.Start(r.Time)
	case events.StepRetried:
		if !was.Item(e.ItemIndex).Began.IsZero() {
			l.Service.Start(r.Time)
		}
	case events.StepRetrying:
		if e.ItemID != "" {
			l.ended(r.Time, e.ItemIndex, limit.CallEnd{Kind: kindOf(e.ErrorType), Asked: time.Duration(e.AskedMS)}, was)
		}
	case events.AgentCompleted:
		l.ended(r.Time, e.ItemIndex, limit.CallEnd{Kind: limit.CallGood, Took: time.Duration(e.DurationMS)}, was)
	case events.AgentFailed:
		end := limit.CallEnd{Kind: kindOf(e.ErrorType)}
		if e.Retry != nil {
			end.Asked = time.Duration(e.Retry.Asked)
		}
		if !e.Rejected() {
			l.ended(r.Time, e.ItemIndex, end, was)
		}
	case events.ConcurrencyChanged:
		l.Untold = l.Untold[min(1, len(l.Untold)):]
	case events.JobResumed:
		l.Untold = nil // the end of the run before has cut them off
	}
}

// ended takes note of how a call ended: an attempt, or a try of a step of it.
func (l *Concurrency) ended(now time.Time, index int, e limit.CallEnd, was Job) {
	it := was.Item(index)
	if it.Began.IsZero() {
		return
	}
	if it.Waited {
		e.Took = 0
	}
	e.Began, e.Calls = it.Began, was.AtWork()
	if c := l.Service.End(e, now); c != nil {
		l.Untold = append(l.Untold, *c)
	}
}

// kindOf returns what a failure of a type says of the service that agents call.
func kindOf(t retry.Type) limit.CallKind {
	switch t {
	case retry.TypeRateLimit:
		return limit.CallRefused
	case retry.TypeServerError, retry.TypeTimeout, retry.TypeNetwork:
		return limit.CallOverloaded
	}
	return limit.CallOther
}

// Pace holds back items and tries, so that no more start in a second than a service takes.
type Pace struct{ *Concurrency }

// Admit implements Limit.
func (p Pace) Admit(a Ask) Verdict {
	return WaitUntil(p.Service.Next(a.Now), a.Now)
}
