package view

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/limit"
	"prodigy/internal/retry"
)

// Pause is a period in which agents of a pool waited for the limit of their plan.
type Pause struct {
	events.QuotaPaused
	From, To time.Time // To is when agents came through again; zero means not yet
}

// pauses are the pauses of a job.
type pauses struct {
	open map[string]int // where they are in list, by the name of events.Hold
	list []Pause
}

func (p *pauses) begin(now time.Time, e events.QuotaPaused) {
	p.end(now, nameOf(e))
	if len(p.list) >= periodsKept {
		return
	}
	if p.open == nil {
		p.open = map[string]int{}
	}
	p.open[nameOf(e)] = len(p.list)
	p.list = append(p.list, Pause{QuotaPaused: e, From: now})
}

// nameOf returns the name of the hold that a pause is.
func nameOf(e events.QuotaPaused) string {
	h, _ := events.HoldOf(e)
	return h.Name
}

func (p *pauses) end(now time.Time, name string) {
	if i, ok := p.open[name]; ok {
		p.list[i].To = now
		delete(p.open, name)
	}
}

// PausedBefore notes what agents waited for when the run before ended, of a job whose records from before are
// not shown.
func (j *Job) PausedBefore(list []events.QuotaPaused, now time.Time) {
	for _, e := range list {
		j.pauses.begin(now, e)
	}
}

// Paused returns the pauses that agents of the job are in, by what waits.
func (j *Job) Paused() []Pause {
	var list []Pause
	for _, gate := range slices.Sorted(maps.Keys(j.pauses.open)) {
		list = append(list, j.pauses.list[j.pauses.open[gate]])
	}
	return list
}

// Pauses returns all pauses of the job, those that it is in included.
func (j *Job) Pauses() []Pause { return slices.Clone(j.pauses.list) }

// ItemCost is what the agents of an item have cost.
type ItemCost struct {
	ItemID string
	Index  int
	limit.Sum
}

// dearestKept is the number of dearest items that are told.
const dearestKept = 10

// Dearest returns the items whose agents have cost most, the dearest first.
func (j *Job) Dearest() []ItemCost {
	list := make([]ItemCost, 0, len(j.costs))
	for _, c := range j.costs {
		if c.Cost > 0 {
			list = append(list, *c)
		}
	}
	slices.SortFunc(list, func(a, b ItemCost) int {
		return cmp.Or(cmp.Compare(b.Cost, a.Cost),
			cmp.Compare(a.Index, b.Index))
	})
	return list[:min(len(list), dearestKept)]
}

// pausedNow notes that agents of a pool wait, among them the one that met the limit.
func (j *Job) pausedNow(now time.Time, e events.QuotaPaused) {
	j.pauses.begin(now, e)
	if a := j.byID[e.Item]; a != nil && !e.Near {
		a.Due = e.Until
	}
}

// used adds what an agent has used. One that met the limit of its plan waits for the end of the pause, which
// another has begun.
func (j *Job) used(e events.AgentUsage) {
	j.Spent.Add(e.Use())
	if e.Outcome == string(retry.TypeQuota) || e.Outcome == string(retry.TypeAuth) {
		var until time.Time
		for _, p := range j.Paused() {
			if p.Until.After(until) {
				until = p.Until
			}
		}
		j.at(e.ItemID, e.Step, until)
	}
	if e.ItemID == "" {
		return
	}
	if j.costs == nil {
		j.costs = map[int]*ItemCost{}
	}
	if j.costs[e.ItemIndex] == nil {
		j.costs[e.ItemIndex] = &ItemCost{ItemID: e.ItemID, Index: e.ItemIndex}
	}
	j.costs[e.ItemIndex].Add(e.Use())
}
