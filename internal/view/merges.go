package view

import (
	"cmp"
	"slices"
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/retry"
)

// Merges is what became of the work of agents, in a job with workspaces.
type Merges struct {
	Commits    Newest[Merged]
	Collisions Newest[Collision]
	Verifies   Newest[Verify] // that have ended
	Verifying  *Verify        // that runs, or ran when the run died

	failed []Verify // of the batch at work, each a part of the one before
}

// Newest is a list whose memory is bounded.
type Newest[T any] struct {
	List   []T // the oldest first
	Before int // that are not kept any more
}

// mergesKept bounds each list of Merges.
const mergesKept = 200

func (n *Newest[T]) add(x T) {
	if len(n.List) == mergesKept {
		n.List = slices.Delete(n.List, 0, 1)
		n.Before++
	}
	n.List = append(n.List, x)
}

// Merged is a commit on the branch of the job: the work of an item, or what a phase has committed.
type Merged struct {
	Time    time.Time
	Commit  string
	ItemID  string // empty: of a phase
	Index   int
	Attempt int
	Files   int    // that it changed
	Phase   string // empty: of an item
}

// Short returns the name of the commit as people write it.
func (m Merged) Short() string { return events.ShortCommit(m.Commit) }

// Collision is work that could not be merged.
type Collision struct {
	Time      time.Time
	ItemID    string
	Index     int
	Attempt   int
	Conflicts []events.Conflict // at most events.MaxConflicts
	Action    errorpolicy.Action
	Resolve   bool // the next attempt resolves it
}

// Verify is a run of the steps that verify what was merged.
type Verify struct {
	Began    time.Time
	Duration time.Duration // of one that has ended
	Commit   string
	ItemIDs  []string
	Depth    int // how often its batch has been halved
	Passed   bool
	Step     string // that failed
	Error    string
}

// queued is an item in the merge queue.
type queued struct {
	id    string
	seq   int64 // of the record by which it came
	since time.Time
}

// Queued is an item whose work waits to be merged.
type Queued struct {
	ItemID string
	Index  int
	Since  time.Time
}

// Unmerged returns the number of items whose work waits to be merged.
func (j *Job) Unmerged() int { return len(j.merging) }

// Queue returns the items whose work waits to be merged, those that are being merged included, in the order
// in which that is done: that in which their agents were done, or that of the items.
func (j *Job) Queue(byItem bool) []Queued {
	list := make([]Queued, 0, len(j.merging))
	for index, q := range j.merging {
		list = append(list, Queued{q.id, index, q.since})
	}
	slices.SortFunc(list, func(a, b Queued) int {
		if byItem {
			return cmp.Compare(a.Index, b.Index)
		}
		return cmp.Compare(j.merging[a.Index].seq, j.merging[b.Index].seq)
	})
	return list
}

// before returns how many items are merged before one whose work waits to be merged. In the order of the
// items, that are all before it without an outcome.
func (j *Job) before(index int, byItem bool) int {
	n := 0
	if byItem {
		for i := range index {
			if _, merging := j.merging[i]; merging || j.status.At(i) == errorpolicy.Pending {
				n++
			}
		}
		return n
	}
	for _, q := range j.merging {
		if q.seq < j.merging[index].seq {
			n++
		}
	}
	return n
}

// applyMerge adds a record about the merge queue.
func (j *Job) applyMerge(r events.Record) {
	m := &j.Merges
	switch e := r.Event.(type) {
	case events.WorktreeMerged:
		for i, index := range e.ItemIndexes {
			delete(j.merging, index)
			m.Commits.add(Merged{
				Time: r.Time, Commit: e.Commits[i], ItemID: e.ItemIDs[i], Index: index,
				Attempt: e.Attempts[i], Files: e.Files[i],
			})
			j.settle(r.Time, index, errorpolicy.Succeeded)
		}
		j.Merged += len(e.ItemIndexes)
		j.Head = e.Head
	case events.AgentFailed:
		delete(j.merging, e.ItemIndex)
		if e.ErrorType == retry.TypeMergeConflict {
			m.Collisions.add(Collision{
				Time: r.Time, ItemID: e.ItemID, Index: e.ItemIndex, Attempt: e.Attempt, Conflicts: e.Conflicts,
				Action: e.Action, Resolve: e.Resolve,
			})
		}
	case events.PhaseCompleted:
		if e.Head != "" && e.Head != j.Head {
			m.Commits.add(Merged{Time: r.Time, Commit: e.Head, Phase: e.Phase})
		}
		j.Head = cmp.Or(e.Head, j.Head)
	case events.VerifyStarted:
		for len(m.failed) > 0 && !isPart(e.ItemIDs, m.failed[len(m.failed)-1].ItemIDs) {
			m.failed = m.failed[:len(m.failed)-1]
		}
		m.Verifying = &Verify{Began: r.Time, Commit: e.Commit, ItemIDs: e.ItemIDs, Depth: len(m.failed)}
	case events.VerifyCompleted:
		v := m.Verifying
		if m.Verifying = nil; v == nil { // its beginning was not shown
			v = &Verify{Began: r.Time.Add(-time.Duration(e.DurationMS)), Commit: e.Commit}
		}
		v.Duration, v.Passed, v.Step, v.Error = time.Duration(e.DurationMS), e.Passed, e.Step, e.Error
		m.Verifies.add(*v)
		if !v.Passed {
			m.failed = append(m.failed, *v)
		}
	}
}

// isPart reports whether all of some ids are among others that are more.
func isPart(some, all []string) bool {
	if len(some) >= len(all) {
		return false
	}
	for _, id := range some {
		if !slices.Contains(all, id) {
			return false
		}
	}
	return true
}
