package mapreduce

import (
	"prodigy/internal/events"
	"prodigy/internal/job"
	"prodigy/internal/limits"
	"prodigy/internal/workflow"
)

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

// refuseUnproven returns an error for a job whose rollout is held, unless somebody accepts that or the workflow
// is another.
func (j *owner) refuseUnproven() error {
	held := j.Limits.Rollout.Held
	switch {
	case held == "" && j.config.Accept:
		return job.Refusef("job %s has nothing to accept: omit --accept",
			j.place.ID)
	case held == "" || j.config.Accept || j.config.Replacement != nil:
		return nil
	}
	return job.Refusef("job %s is stopped, because of its %s; to resume anyway: prodigy resume %s --accept; to try again with a fixed workflow: --workflow FILE",
		j.place.ID, held, j.place.ID)
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
