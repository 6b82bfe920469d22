package mapreduce

import (
	"time"

	"prodigy/internal/events"
	"prodigy/internal/limit"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

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

// ended tells the limiter how a call ended: an attempt, or a try of a step of it.
func (s *state) ended(index int, e limit.CallEnd, now time.Time) *limit.Change {
	f, runs := s.Running.get(index)
	if !runs {
		return nil
	}
	if e.Began = f.Began; f.Try.After(f.Began) {
		e.Began = f.Try
	}
	if f.Waited {
		e.Took = 0
	}
	e.Calls = len(s.Running)
	return s.Adapt.End(e, now)
}

// stepFailed records a try of a step that failed and is followed by another.
func (s *state) stepFailed(now time.Time, e events.StepRetrying) *limit.Change {
	f, runs := s.Running.get(e.ItemIndex)
	if e.ItemID == "" || !runs || f.ID != e.ItemID || !s.Adapt.Limits() {
		return nil
	}
	c := s.ended(e.ItemIndex, limit.CallEnd{Kind: kindOf(e.ErrorType), Asked: time.Duration(e.AskedMS)}, now)
	f.Waited = true
	s.Running.set(e.ItemIndex, f)
	return c
}

// retriedStep records the next try of a step.
func (s *state) retriedStep(now time.Time, e events.StepRetried) {
	f, runs := s.Running.get(e.ItemIndex)
	if !runs {
		return
	}
	s.Rate.Start(f.Key, now)
	s.Adapt.Start(now)
	s.Retries.Start(true, now)
	f.Try = now
	s.Running.set(e.ItemIndex, f)
}

// takesTurns reports whether starts have to wait for a turn.
func (s *state) takesTurns() bool { return s.Rate.Limits() || s.Adapt.Limits() || s.Retries.Limits() }

// startRates returns how often agents of a workflow and their steps start at most.
func startRates(w *workflow.Workflow) (rates []events.StartRate) {
	if w.Map == nil {
		return nil
	}
	add := func(r workflow.Rate, step string) {
		one := events.StartRate{Limit: r.Limit.String(), PerSecond: r.Limit.PerSecond(), Step: step}
		if r.Per != nil {
			one.Per = r.Per.Value
		}
		rates = append(rates, one)
	}
	if w.Map.Rate.Limit.Count > 0 {
		add(w.Map.Rate, "")
	}
	for i, s := range w.Map.AgentTemplate {
		if s.Rate != nil {
			add(*s.Rate, s.Label(i))
		}
	}
	return rates
}

// isRetry reports whether the next attempt at an item follows a failure.
func (s *state) isRetry(index int) bool { return s.Waiting[index].Retry.Attempts > 0 }

// nextTurn returns when a start may be that needs no turn of a key of its own.
func (s *state) nextTurn(now time.Time) time.Time {
	at := s.Adapt.Next(now)
	if all := s.Rate.Next("", now); all.After(at) {
		return all
	}
	return at
}
