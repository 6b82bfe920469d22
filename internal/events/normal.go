package events

import (
	"strings"
	"time"
)

// normal returns e as it comes back from the log: texts bounded, times and lengths of time rounded to what is written. What
// is applied live is therefore the same as what is applied on replay.
func normal(e Event) Event {
	switch e := e.(type) {
	case JobCompleted:
		e.DurationMS = e.DurationMS.rounded()
		return e
	case JobFailed:
		e.DurationMS = e.DurationMS.rounded()
		e.Reason = Clip(e.Reason, MaxError)
		return e
	case PhaseCompleted:
		e.DurationMS = e.DurationMS.rounded()
		return e
	case StepCompleted:
		return e.normal()
	case StepPrinted:
		e.Output = valid(e.Output)
		return e
	case StepSkipped:
		e.When = Clip(e.When, MaxError)
		return e
	case AgentCompleted:
		e.DurationMS = e.DurationMS.rounded()
		e.Output = valid(e.Output)
		return e
	case AgentFailed:
		return e.normal()
	case AgentSkipped:
		e.Reason = Clip(e.Reason, MaxError)
		return e
	case StepRetrying:
		return e.normal()
	case StepFailed:
		e.Error = Clip(e.Error, MaxError)
		e.StdoutTail, e.StderrTail = ClipTail(e.StdoutTail, MaxTail), ClipTail(e.StderrTail, MaxTail)
		return e
	case CircuitOpen:
		e.Until = written(e.Until)
		return e
	}
	return e
}

func (e StepCompleted) normal() StepCompleted {
	e.DurationMS = e.DurationMS.rounded()
	e.Output, e.Stderr = valid(e.Output), valid(e.Stderr)
	return e
}

func (e AgentFailed) normal() AgentFailed {
	e.DurationMS = e.DurationMS.rounded()
	e.Output = valid(e.Output)
	e.Error = Clip(e.Error, MaxError)
	e.ErrorSignature = Clip(e.ErrorSignature, MaxError)
	e.Reason = Clip(e.Reason, MaxError)
	e.StdoutTail = ClipTail(e.StdoutTail, MaxTail)
	e.StderrTail = ClipTail(e.StderrTail, MaxTail)
	e.DelayMS = roundedAt(e.DelayMS)
	e.RetryAt = writtenAt(e.RetryAt)
	if e.Retry != nil {
		state := *e.Retry
		state.WaitedMS, state.PreviousMS = state.WaitedMS.rounded(), state.PreviousMS.rounded()
		state.ExpiresAt = writtenAt(state.ExpiresAt)
		e.Retry = &state
	}
	return e
}

func (e StepRetrying) normal() StepRetrying {
	e.Error = Clip(e.Error, MaxError)
	e.ComputedDelayMS = e.ComputedDelayMS.rounded()
	e.DelayMS = e.DelayMS.rounded()
	e.WaitedMS = e.WaitedMS.rounded()
	e.BudgetLeftMS = roundedAt(e.BudgetLeftMS)
	e.BudgetExpiresAt = writtenAt(e.BudgetExpiresAt)
	return e
}

func valid(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

func roundedAt(m *Millis) *Millis {
	if m == nil {
		return nil
	}
	r := m.rounded()
	return &r
}

// written returns t as the log keeps it: in UTC, to the microsecond.
func written(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

func writtenAt(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	w := written(*t)
	return &w
}
