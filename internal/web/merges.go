package web

import (
	"fmt"
	"slices"

	"prodigy/internal/view"
)

// merges is what the page shows of the merge queue of a job with workspaces.
type merges struct {
	Queue      chart
	SummedUp   bool // there are too many merges to draw each one
	Verified   bool // there is a row of the runs of verify
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

// mergeQueue draws the merge queue.
func (p *plot) mergeQueue() chart {
	q := &p.queue
	tracks := []*track{&q.merger}
	if len(q.verify.bars) > 0 {
		tracks = append(tracks, &q.verify)
	}
	top := trackHeight * float64(len(tracks))
	c := p.chart(top + depthHeight)
	for i, t := range tracks {
		y := trackHeight * float64(i)
		if p.tooMany() {
			c.Rects = append(c.Rects, p.summed(t.cells, y, trackHeight-1)...)
			continue
		}
		for _, b := range t.bars {
			x := p.x(b.From)
			c.Rects = append(c.Rects, rect{
				X: x, Y: y, W: max(p.x(b.To)-x, 2), H: trackHeight - 1, Class: b.Class,
				Title: b.Title,
			})
		}
	}
	most := max(slices.Max(q.depths[:]), 1)
	var depth points
	for i, n := range q.depths {
		y := top + depthHeight - (depthHeight-4)*float64(n)/float64(most)
		depth.add(xOf(i), y)
		depth.add(xOf(i+1), y)
	}
	c.curve("waits", depth)
	c.Name = fmt.Sprintf("Merge queue over time (max %d waiting)", most)
	return c
}

// tooMany reports whether there are too many merges to draw each one.
func (p *plot) tooMany() bool {
	return len(p.queue.merger.bars) > p.kept.spans || len(p.queue.verify.bars) > p.kept.spans
}

// mergesOf returns what is shown of the merge queue, with at most so many rows in each table; nil if the job
// has no workspaces.
func mergesOf(j *view.Job, p *plot, rows int) *merges {
	if j.Base == "" {
		return nil
	}
	m := &merges{Queue: p.mergeQueue(), SummedUp: p.tooMany(), Verified: len(p.queue.verify.bars) > 0}
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
