package web

import (
	"fmt"
	"slices"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/retry"
)

// The merge queue is drawn as a row of merges, one of runs of verify, and below how many items wait.
const (
	trackHeight = 16.0
	depthHeight = 60.0
)

// seeMerge draws what a record says of merges.
func (p *plot) seeMerge(r events.Record) {
	switch e := r.Event.(type) {
	case events.WorktreeMerged:
		for i, id := range e.ItemIDs {
			p.track(0, r.Time, r.Time, "ok", id+" merged as "+events.ShortCommit(e.Commits[i]))
		}
	case events.AgentFailed:
		if e.ErrorType == retry.TypeMergeConflict {
			p.track(0, r.Time, r.Time, "bad", e.ItemID+": "+e.Error)
		}
	}
}

// track adds a bar to a row of the merge queue, in place of the oldest of very many.
func (p *plot) track(row float64, from, to time.Time, class, title string) {
	x := p.x(p.axis.at(from))
	p.merges = append(p.merges, rect{
		X: x, Y: trackHeight * row, W: max(p.x(p.axis.at(to))-x, 2), H: trackHeight - 1, Class: class,
		Title: cut(title, itemShown),
	})
	p.merges = p.merges[max(len(p.merges)-p.most, 0):]
}

// mergeQueue draws the merge queue, with the newest merges and runs of verify.
func (p *plot) mergeQueue() chart {
	for _, v := range p.job.Merges.Verifies.List {
		class, outcome := "ok", " passed"
		if !v.End.Passed {
			class, outcome = "bad", " failed: "+v.End.Error
		}
		end := v.Began.Add(time.Duration(v.End.DurationMS))
		p.track(1, v.Began, end, class, "verify of "+namesOf(v.ItemIDs)+outcome)
	}
	if v := p.job.Merges.Verifying; v != nil {
		p.track(1, v.Began, p.job.Last, "unended", "verify of "+namesOf(v.ItemIDs)+" is running")
	}
	c := p.chart(2*trackHeight + depthHeight)
	c.Rects = p.merges
	most := max(slices.Max(p.merging.most[:]), 1)
	for i, n := range p.merging.most {
		c.step(i, (depthHeight-4)*n/most)
	}
	c.Name = fmt.Sprintf("Merge queue over time (max %.0f waiting)", most)
	return c
}
