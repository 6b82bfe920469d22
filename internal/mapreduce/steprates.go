package mapreduce

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/limit"
)

// stepRates are the limits of how often steps start, by the position of the step in agent_template.
type stepRates map[int]*limit.RateLimiter

func newStepRates(limits map[int]limit.Rate) stepRates {
	if len(limits) == 0 {
		return nil
	}
	s := stepRates{}
	for position, most := range limits {
		s[position] = limit.NewRateLimiter(most)
	}
	return s
}

// UnmarshalJSON restores what limiters of the same limits remembered.
func (s *stepRates) UnmarshalJSON(data []byte) error {
	var all map[int]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	for position, one := range all {
		if *s == nil {
			*s = stepRates{}
		}
		if (*s)[position] == nil {
			(*s)[position] = &limit.RateLimiter{}
		}
		if err := json.Unmarshal(one, (*s)[position]); err != nil {
			return err
		}
	}
	return nil
}

// keys returns for how many keys something is remembered.
func (s stepRates) keys() (n int) {
	for _, l := range s {
		n += l.Keys()
	}
	return n
}

// stepTurn records a turn of a step.
func (s *state) stepTurn(now time.Time, e events.StepTurn) {
	if l := s.Steps[e.Position]; l != nil {
		l.Start(e.Key, now)
	}
	if f, runs := s.Running.get(e.ItemIndex); runs && e.WaitedMS > 0 {
		f.Waited = true // how long its attempt takes says nothing of the service
		s.Running.set(e.ItemIndex, f)
	}
}

// stepQueues are the agents that wait for the turns of steps, by the position of the step.
type stepQueues map[int]*lanes[string, *parking]

// askTurn has an agent wait for the turn of a step. It leaves its slot to others if it has to wait, unless so many wait already.
func (p *pool) askTurn(k *parking) {
	if p.steps == nil {
		p.steps = stepQueues{}
	}
	q := p.steps[k.step.Position]
	if q == nil {
		q = &lanes[string, *parking]{}
		p.steps[k.step.Position] = q
	}
	now := time.Now()
	if !k.keeps && (q.has(k.step.Key) || p.stepMay(k.step.Position)(k.step.Key, now).After(now)) && len(p.parked)+p.turns.woken.len()+p.stepsParked < maxParked {
		p.leaveSlot(k)
		p.stepsParked++
	} else {
		k.keeps = true
	}
	if k.step.Late > 0 {
		q.addFirst(k.step.Key, k)
	} else {
		q.add(k.step.Key, k)
	}
}

// stepMay returns when a step may start, by key.
func (p *pool) stepMay(position int) func(key string, now time.Time) time.Time {
	return p.job.state.Steps[position].Next
}

// serveSteps gives their turns to agents that have kept their slots, and with a free slot to one that has not. It reports whether it gave the slot away.
func (p *pool) serveSteps(now time.Time, vacant bool) bool {
	for _, position := range slices.Sorted(maps.Keys(p.steps)) {
		q := p.steps[position]
		for p.halted == nil {
			_, k, ok := q.next(now, p.stepMay(position))
			switch {
			case !ok:
			case k.gone:
				q.pop()
				p.unparkStep(k)
				continue
			case k.keeps:
				q.pop()
				p.giveTurn(k, now)
				k.wake <- p.flights[k.token].slot
				continue
			case vacant:
				q.pop()
				p.unparkStep(k)
				p.giveTurn(k, now)
				p.goOn(k)
				return true
			}
			break
		}
	}
	return false
}

func (p *pool) unparkStep(k *parking) {
	if !k.keeps {
		p.stepsParked--
	}
}

// giveTurn records that a step has its turn.
func (p *pool) giveTurn(k *parking, now time.Time) {
	t := k.step
	e := events.StepTurn{ItemID: k.id, ItemIndex: k.index, Step: t.Step, Position: t.Position, Key: t.Key}
	if waited := now.Sub(k.asked); waited >= time.Millisecond {
		e.WaitedMS = events.Millis(waited)
	}
	p.job.record(e)
}

// nextStep returns when a step may have its turn, or latest if that is sooner.
func (p *pool) nextStep(latest time.Time, vacant bool) time.Time {
	for _, q := range p.steps {
		if at, ok := q.due(); ok && at.Before(latest) && (vacant || q.order[0].queue[0].keeps) {
			latest = at
		}
	}
	return latest
}

// forgetSteps removes an agent that has ended, should it wait for the turn of a step.
func (p *pool) forgetSteps(token int64) {
	for _, q := range p.steps {
		for k := range q.all() {
			if k.token == token {
				k.gone = true
			}
		}
	}
}
