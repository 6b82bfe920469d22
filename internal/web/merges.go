package web

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"prodigy/internal/events"
	"prodigy/internal/retry"
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

// bar is a rectangle of a track.
type bar struct {
	From, To time.Duration
	Class    string
	Title    string
}

// track is a row of bars, of one who does one thing after another.
type track struct {
	bars  []bar
	cells []cell // what it did in each of the equal parts of the axis
}

// queue collects what is drawn of the merge queue.
type queue struct {
	merger, verify track
	depths         [columns]int // how many waited, at most
	depth          int          // how many wait since the last change
	last           int          // its column
}

func newQueue(width int) queue {
	return queue{merger: track{cells: make([]cell, width)}, verify: track{cells: make([]cell, width)}}
}

// addTo adds a bar to a track. Bad says that it is about a failure.
func (p *plot) addTo(t *track, b bar, bad bool) {
	if len(t.bars) <= p.kept.spans {
		t.bars = append(t.bars, b)
	}
	p.fillCells(t.cells, b.From, b.To, bad)
}

// queued draws what a record has changed in the merge queue, whose length was depth and in which verify ran, if it
// did.
func (p *plot) queued(r events.Record, now time.Duration, depth int, verify *view.Verify) {
	m := &p.job.Merges
	p.deepen(now)
	switch e := r.Event.(type) {
	case events.WorktreeMerged:
		took := time.Duration(e.DurationMS)
		title := fmt.Sprintf("%s merged as %.10s after %s", namesOf(e.ItemIDs), e.Head, exactly(took))
		p.addTo(&p.queue.merger, bar{max(now-took, 0), now, "ok", title}, false)
	case events.AgentFailed:
		if p.job.Unmerged() == depth {
			break
		}
		class, what := "again", "was not taken: "+string(e.ErrorType)
		if e.ErrorType == retry.TypeMergeConflict {
			class, what = "bad", e.Error
		}
		p.addTo(&p.queue.merger, bar{now, now, class, e.ItemID + ": " + cut(what, itemShown)}, true)
	}
	if verify == nil || m.Verifying == verify {
		return
	}
	if _, ended := r.Event.(events.VerifyCompleted); !ended {
		p.verified(verify, now, stopped)
		return
	}
	if last := m.Verifies.List[len(m.Verifies.List)-1]; last.Passed {
		p.verifiedAs(verify, now, "ok", "passed")
	} else {
		p.verifiedAs(verify, now, "bad", "failed in "+last.Step+": "+cut(last.Error, itemShown))
	}
}

// verified draws a run of verify that has no end of its own in the log.
func (p *plot) verified(v *view.Verify, now time.Duration, o outcome) {
	p.verifiedAs(v, now, classes[o].class, classes[o].word)
}

func (p *plot) verifiedAs(v *view.Verify, now time.Duration, class, how string) {
	since := p.axis.at(v.Began)
	title := fmt.Sprintf("verify of %s %s after %s", namesOf(v.ItemIDs), how, exactly(now-since))
	p.addTo(&p.queue.verify, bar{since, now, class, title}, class == "bad")
}

// deepen notes how many items wait to be merged from now on.
func (p *plot) deepen(now time.Duration) {
	q := &p.queue
	at := p.part(now, columns)
	for i := q.last + 1; i <= at; i++ {
		q.depths[i] = q.depth
	}
	q.last, q.depth = at, p.job.Unmerged()
	q.depths[at] = max(q.depths[at], q.depth)
}

// namesOf names a few items.
func namesOf(ids []string) string {
	const few = 8
	if len(ids) <= few {
		return strings.Join(ids, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(ids[:few], ", "), len(ids)-few)
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
	c.Name = fmt.Sprintf("Merges over time, at most %d items waiting", most)
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
