package mapreduce

import (
	"fmt"
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/limits"
	"prodigy/internal/workflow"
)

// Item returns what is known of an item.
func (s *state) Item(index int) limits.Item {
	it := limits.Item{Failed: s.isRetry(index), Settled: s.Status.At(index) != errorpolicy.Pending}
	if f, runs := s.Running.get(index); runs {
		it.Key, it.Began, it.Waited = f.Key, f.Began, f.Waited
		if f.Try.After(f.Began) {
			it.Began = f.Try
		}
	}
	return it
}

// AtWork returns how many attempts at items have begun and not ended.
func (s *state) AtWork() int { return len(s.Running) }

// stepFailed notes that a try of a step failed and is followed by another.
func (s *state) stepFailed(e events.StepRetrying) {
	f, runs := s.Running.get(e.ItemIndex)
	if e.ItemID == "" || !runs || f.ID != e.ItemID || !s.Limits.Concurrency.Service.Limits() {
		return
	}
	f.Waited = true
	s.Running.set(e.ItemIndex, f)
}

// retriedStep notes when the next try of a step began.
func (s *state) retriedStep(now time.Time, e events.StepRetried) {
	if f, runs := s.Running.get(e.ItemIndex); runs {
		f.Try = now
		s.Running.set(e.ItemIndex, f)
	}
}

// stepTurn notes that a step has waited for its turn.
func (s *state) stepTurn(e events.StepTurn) {
	if f, runs := s.Running.get(e.ItemIndex); runs && e.WaitedMS > 0 {
		f.Waited = true // how long its attempt takes says nothing of the service
		s.Running.set(e.ItemIndex, f)
	}
}

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

// refuseUnproven returns an error for a job whose rollout is held, unless somebody accepts that or the workflow
// is another.
func (j *job) refuseUnproven() error {
	held := j.state.Limits.Rollout.Held
	switch {
	case held == "" && j.config.Accept:
		return &RefusedError{Reason: fmt.Sprintf("job %s waits for nothing to be accepted: leave out --accept",
			j.place.ID)}
	case held == "" || j.config.Accept || j.config.Replacement != nil:
		return nil
	}
	return &RefusedError{Reason: fmt.Sprintf("job %s is paused, because of its %s; prodigy resume %s --accept goes on all the same, and --workflow FILE tries it again with a mended workflow",
		j.place.ID, held, j.place.ID)}
}

// RolloutOf returns the stages of the rollout of a map phase, for people.
func RolloutOf(m *workflow.Map) (stages []string) {
	for i, s := range limits.StagesOf(m) {
		stages = append(stages, events.RolloutStage{
			Stage: i, Name: s.Name, Slots: s.Slots, Items: s.Items,
			SuccessRate: s.Rate,
		}.Words())
	}
	return stages
}
