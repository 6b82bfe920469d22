package web

import (
	"fmt"
	"slices"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/events"
	"prodigy/internal/view"
)

// merges is what the page shows of the merge queue of a job with workspaces.
type merges struct {
	Queue      chart
	Collisions []collision
	Left       int // earlier collisions, that are not listed
	Verifies   []view.Verify
	LeftRuns   int
	Log        []commit // the newest first
	LeftLog    int
}

// collision is a row of the table of conflicts.
type collision struct {
	view.Collision
	Became string
}

// commit is a row of the log of the branch.
type commit struct {
	view.Merged
	Subject string
}

// The merge queue is drawn as a row of merges, one of runs of verify, and below how many items wait.
const (
	trackHeight = 16.0
	depthHeight = 60.0
)

// mergeQueue draws the merge queue, with the newest merges and runs of verify.
func (p *plot) mergeQueue() chart {
	m := &p.job.Merges
	c := p.chart(2*trackHeight + depthHeight)
	bar := func(row int, from, to time.Time, class, title string) {
		x := p.x(p.axis.at(from))
		c.Rects = append(c.Rects, rect{
			X: x, Y: trackHeight * float64(row), W: max(p.x(p.axis.at(to))-x, 2), H: trackHeight - 1, Class: class,
			Title: title,
		})
	}
	for _, one := range m.Commits.List {
		if one.ItemID != "" {
			bar(0, one.Time, one.Time, "ok", one.ItemID+" merged as "+one.Short())
		}
	}
	for _, one := range m.Collisions.List {
		paths := check.Each(one.Conflicts, func(c events.Conflict) string { return c.Path })
		bar(0, one.Time, one.Time, "bad", one.ItemID+": conflict in "+namesOf(paths))
	}
	for _, v := range m.Verifies.List {
		class, how := "ok", " passed"
		if !v.Passed {
			class, how = "bad", " failed in "+v.Step+": "+cut(v.Error, itemShown)
		}
		title := "verify of " + namesOf(v.ItemIDs) + how + " after " + exactly(v.Duration)
		bar(1, v.Began, v.Began.Add(v.Duration), class, title)
	}
	if v := m.Verifying; v != nil {
		bar(1, v.Began, p.job.Last, "unended", "verify of "+namesOf(v.ItemIDs))
	}
	most := max(slices.Max(p.merging.most[:]), 1)
	var depth points
	for i, n := range p.merging.most {
		depth.step(i, c.Height-(depthHeight-4)*n/most)
	}
	c.curve("waits", depth)
	c.Name = fmt.Sprintf("Merge queue over time (max %.0f waiting)", most)
	return c
}

// mergesOf returns what is shown of the merge queue, with at most so many rows in each table; nil if the job
// has no workspaces.
func mergesOf(j *view.Job, p *plot, rows int) *merges {
	if j.Base == "" {
		return nil
	}
	m := &merges{Queue: p.mergeQueue()}
	list, left := newest(j.Merges.Collisions, rows)
	m.Left = left
	for _, c := range list {
		m.Collisions = append(m.Collisions, collision{c, became(j, c)})
	}
	m.Verifies, m.LeftRuns = newest(j.Merges.Verifies, rows)
	log, left := newest(j.Merges.Commits, rows)
	m.LeftLog = left
	for _, c := range slices.Backward(log) {
		subject := j.Workflow + ": " + c.ItemID
		if c.Phase != "" {
			subject = "commits of the phase " + c.Phase
		}
		m.Log = append(m.Log, commit{c, subject})
	}
	return m
}

// newest returns the newest elements, and the number of those before.
func newest[T any](n view.Newest[T], most int) (list []T, left int) {
	cut := max(len(n.List)-most, 0)
	return n.List[cut:], n.Before + cut
}

// became says what became of work that could not be merged.
func became(j *view.Job, c view.Collision) string {
	how := "dead letter"
	switch {
	case c.Resolve:
		how = "workspace.resolve runs"
	case c.Action.RunsAgain():
		how = "retried"
	case !c.Action.Status().DeadLetter():
		how = "skipped"
	}
	if j.StatusOf(c.Index) == view.Succeeded {
		how += ", done since"
	}
	return how
}
