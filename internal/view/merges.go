package view

import (
	"slices"
	"time"

	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
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
