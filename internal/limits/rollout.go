package limits

import (
	"fmt"
	"math"
	"strconv"

	"prodigy/internal/events"
	"prodigy/internal/retry"
	"prodigy/internal/workflow"
)

// Rollout begins a map phase with few items, or few at once, and goes on when enough of them succeed. It has
// stages: the canary, and the steps of a ramp but the last. What belongs to which stage follows from the log:
// RolloutStage begins one, RolloutHeld ends the run in one.
type Rollout struct {
	Stage int    `json:"stage,omitempty"` // the number of stages that are over
	Begun bool   `json:"begun,omitempty"` // the log says that the stage has begun
	Good  int    `json:"good,omitempty"`  // items that have succeeded in the stage
	Bad   int    `json:"bad,omitempty"`   // items that have ended otherwise in the stage
	Held  string `json:"held,omitempty"`  // why it does not go on; empty if it does

	Total int `json:"total,omitempty"` // items, once they are selected; at least 1 then
}

// Stages are the stages of a rollout. As a limit they hold back what needs a slot in the steps of a ramp.
type Stages struct {
	*Rollout
	List []Stage
}

// Stage is one stage of a rollout.
type Stage struct {
	Name  string  // of what has it
	Alone bool    // no further item begins before it is over
	Slots int     // agents at once; 0 for as many as there are slots
	Items int     // that are looked at
	Rate  float64 // the part of them that has to succeed
}

// What a stage is of.
const (
	Canary = "canary"
	Ramp   = "ramp"
)

// StagesOf returns the stages that the rollout of a map phase has.
func StagesOf(m *workflow.Map) (stages []Stage) {
	if m == nil {
		return nil
	}
	if c := m.Canary; c != nil {
		stages = append(stages, Stage{Name: Canary, Alone: true, Items: c.Items, Rate: *c.SuccessRate})
	}
	if m.Ramp == nil {
		return stages
	}
	steps := m.Ramp.Steps
	if m.Canary != nil {
		stages[0].Slots, steps = steps[0], steps[1:]
	}
	for _, slots := range steps[:len(steps)-1] {
		stages = append(stages, Stage{Name: Ramp, Slots: slots, Items: *m.Ramp.Items, Rate: *m.Ramp.SuccessRate})
	}
	return stages
}

// mayFail returns how many of the items of a stage may fail.
func (s Stage) mayFail(items int) int { return items - int(math.Ceil(s.Rate*float64(items)-1e-9)) }

// stage returns the stage that the rollout is in, or nil if it is over or there is none.
func (r *Stages) stage() *Stage {
	if r.Stage < len(r.List) {
		return &r.List[r.Stage]
	}
	return nil
}

// Admit implements Limit.
func (r *Stages) Admit(a Ask) Verdict {
	s := r.stage()
	return WaitWhile(s != nil && s.Slots > 0 && a.Busy >= s.Slots)
}

// First holds back new items while those of the canary have to succeed first.
type First struct{ *Stages }

// Admit implements Limit.
func (f First) Admit(a Ask) Verdict {
	s := f.stage()
	return WaitWhile(s != nil && s.Alone && a.Class == New && f.Good+f.Bad+a.Begun >= s.Items)
}

// Tell implements Teller: it begins the next stage when the one before has gone well. Else it says that the run ends.
func (r *Stages) Tell() events.Event {
	if len(r.List) == 0 || r.Held != "" {
		return nil
	}
	s := r.stage()
	switch {
	case !r.Begun:
		return r.begins(r.Stage)
	case s == nil:
		return nil
	}
	items := s.Items
	if r.Total > 0 && s.Alone {
		items = min(items, r.Total)
	}
	if may := s.mayFail(items); r.Bad > may {
		rate := strconv.FormatFloat(s.Rate, 'g', -1, 64)
		return events.RolloutHeld{
			Stage: r.Stage, Name: s.Name, Successful: r.Good, Failed: r.Bad,
			Reason: fmt.Sprintf("%s: %d of %d items did not succeed, success_rate %s allows %d of %d",
				s.Name, r.Bad, r.Good+r.Bad, rate, may, items),
		}
	}
	if r.Good+r.Bad < s.Items {
		return nil
	}
	return r.begins(r.Stage + 1)
}

// begins returns the event of the beginning of a stage, or of what comes after the last.
func (r *Stages) begins(n int) events.Event {
	e := events.RolloutStage{Stage: n, Successful: r.Good, Failed: r.Bad}
	if n < len(r.List) {
		s := r.List[n]
		e.Name, e.Slots, e.Items, e.SuccessRate = s.Name, s.Slots, s.Items, s.Rate
	}
	return e
}

// Apply takes note of a record.
func (r *Rollout) Apply(rec events.Record, was Job) {
	switch e := rec.Event.(type) {
	case events.RolloutStage:
		r.Stage, r.Begun, r.Good, r.Bad, r.Held = e.Stage, true, 0, 0, ""
	case events.RolloutHeld:
		r.Held = e.Reason
	case events.ItemsSelected:
		r.Total = max(e.TotalItems, 1)
	case events.JobResumed:
		if e.Reason != events.ForDeadLetters {
			r.resumed(e.Accepted)
		}
	case events.AgentCompleted:
		if e.Commit == "" {
			r.succeeded(e.ItemIndex, was)
		}
	case events.WorktreeMerged:
		for _, index := range e.ItemIndexes {
			r.succeeded(index, was)
		}
	case events.AgentFailed:
		ends := e.ErrorType != retry.TypeSkipped && (e.Rejected() || !e.Action.RunsAgain())
		if ends && !was.Item(e.ItemIndex).Settled {
			r.Bad++
		}
	}
}

// succeeded counts an item whose first outcome is a success.
func (r *Rollout) succeeded(index int, was Job) {
	if !was.Item(index).Settled {
		r.Good++
	}
}

// resumed takes up the rollout again. After accept the stage in which it was held is over; otherwise it begins anew.
func (r *Rollout) resumed(accepted bool) {
	if r.Held == "" {
		return
	}
	r.Begun, r.Good, r.Bad, r.Held = false, 0, 0, ""
	if accepted {
		r.Stage++
	}
}
