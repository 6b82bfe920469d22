package mapreduce

import (
	"fmt"
	"math"
	"strconv"

	"prodigy/internal/events"
	"prodigy/internal/workflow"
)

// A rollout begins a map phase with few items, or few at once, and goes on when enough of them succeed. It has stages: the canary, and the steps of a
// ramp but the last. What belongs to which stage follows from the log: RolloutStage begins one, RolloutHeld ends the run in one.

// rollout is what is known of the rollout of a job.
type rollout struct {
	Stage int    `json:"stage,omitempty"` // the number of stages that are over
	Begun bool   `json:"begun,omitempty"` // the log says that the stage has begun
	Good  int    `json:"good,omitempty"`  // items that have succeeded in the stage
	Bad   int    `json:"bad,omitempty"`   // items that have ended otherwise in the stage
	Held  string `json:"held,omitempty"`  // why it does not go on; empty: it does
}

// stage is one stage of a rollout.
type stage struct {
	name  string  // of what has it
	alone bool    // no further item begins before it is over
	slots int     // agents at once; 0: as many as there are slots
	items int     // that are looked at
	rate  float64 // the part of them that has to succeed
}

const (
	stageCanary = "canary"
	stageRamp   = "ramp"
)

// stagesOf returns the stages that the rollout of a map phase has.
func stagesOf(m *workflow.Map) (stages []stage) {
	if m == nil {
		return nil
	}
	if c := m.Canary; c != nil {
		stages = append(stages, stage{name: stageCanary, alone: true, items: c.Items, rate: *c.SuccessRate})
	}
	if m.Ramp == nil {
		return stages
	}
	steps := m.Ramp.Steps
	if m.Canary != nil {
		stages[0].slots, steps = steps[0], steps[1:]
	}
	for _, slots := range steps[:len(steps)-1] {
		stages = append(stages, stage{name: stageRamp, slots: slots, items: *m.Ramp.Items, rate: *m.Ramp.SuccessRate})
	}
	return stages
}

// mayFail returns how many of the items of a stage may fail.
func (s stage) mayFail(items int) int { return items - int(math.Ceil(s.rate*float64(items)-1e-9)) }

// stage returns the stage that the rollout is in; nil: it is over, or there is none.
func (p *pool) stage() *stage {
	if n := p.job.state.Rollout.Stage; n < len(p.stages) {
		return &p.stages[n]
	}
	return nil
}

// mayBegin reports whether an item may begin that has not begun before.
func (p *pool) mayBegin() bool {
	s := p.stage()
	if s == nil || !s.alone {
		return true
	}
	st := p.job.state
	begun := st.Rollout.Good + st.Rollout.Bad + len(st.Running) + len(st.Waiting) + len(st.Merging)
	return begun+p.turns.starts.len()-p.turns.again < s.items
}

// rollOut begins the next stage of the rollout when the one before has gone well. Else the run ends.
func (p *pool) rollOut() {
	j := p.job
	if len(p.stages) == 0 || p.halted != nil {
		return
	}
	for {
		r, s := j.state.Rollout, p.stage()
		if s == nil && r.Begun {
			return
		}
		if !r.Begun {
			p.beginStage(r.Stage, s)
			continue
		}
		items := s.items
		if j.state.Selected && s.alone {
			items = min(items, max(j.state.Total, 1))
		}
		if may := s.mayFail(items); r.Bad > may {
			reason := fmt.Sprintf("%s: %d of %d items did not succeed, and success_rate %s allows %d of %d",
				s.name, r.Bad, r.Good+r.Bad, strconv.FormatFloat(s.rate, 'g', -1, 64), may, items)
			j.record(events.RolloutHeld{Stage: r.Stage, Name: s.name, Successful: r.Good, Failed: r.Bad, Reason: reason})
			p.halt(runResult{state: Paused, reason: reason, unproven: true}, untilTheyEnd)
			return
		}
		if r.Good+r.Bad < s.items {
			return
		}
		next := r.Stage + 1
		if next < len(p.stages) {
			p.beginStage(next, &p.stages[next])
		} else {
			p.beginStage(next, nil)
		}
	}
}

// beginStage records that a stage begins. A nil one is what comes after the last.
func (p *pool) beginStage(n int, s *stage) {
	before := p.job.state.Rollout
	e := events.RolloutStage{Stage: n, Successful: before.Good, Failed: before.Bad}
	if s != nil {
		e.Name, e.Slots, e.Items, e.SuccessRate = s.name, s.slots, s.items, s.rate
	}
	p.job.record(e)
}

// countEnd counts an item that has its first outcome.
func (r *rollout) countEnd(good bool) {
	if good {
		r.Good++
		return
	}
	r.Bad++
}

// resumed takes up the rollout again. After accept the stage in which it was held is over; otherwise it begins anew.
func (r *rollout) resumed(accepted bool) {
	if r.Held == "" {
		return
	}
	if *r = (rollout{Stage: r.Stage}); accepted {
		r.Stage++
	}
}

// refuseUnproven returns an error for a job whose rollout is held, unless somebody accepts that or the workflow is another.
func (j *job) refuseUnproven() error {
	held := j.state.Rollout.Held
	switch {
	case held == "" && j.config.Accept:
		return &RefusedError{Reason: fmt.Sprintf("job %s waits for nothing to be accepted: leave out --accept", j.place.ID)}
	case held == "" || j.config.Accept || j.config.Replacement != nil:
		return nil
	}
	return &RefusedError{Reason: fmt.Sprintf("job %s is paused, because of its %s; prodigy resume %s --accept goes on all the same, and --workflow FILE tries it again with a mended workflow",
		j.place.ID, held, j.place.ID)}
}

// RolloutOf returns the stages of the rollout of a map phase, for people.
func RolloutOf(m *workflow.Map) (stages []string) {
	for i, s := range stagesOf(m) {
		stages = append(stages, events.RolloutStage{Stage: i, Name: s.name, Slots: s.slots, Items: s.items, SuccessRate: s.rate}.Words())
	}
	return stages
}
