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

	// The runs of verify that have ended.
	Verifies Newest[Verify]

	// The run of verify at work. It is nil if there is none.
	Verifying *Verify

	// The failed runs of the batch at work, each a part of the one before.
	failed []Verify
}

// Newest is a list whose memory is bounded.
type Newest[T any] struct {
	List   []T // the oldest first
	Before int // that are not kept any more
}

// mergesKept bounds each list of Merges.
const mergesKept = 500

// add adds an element, in place of the oldest once there are mergesKept.
func (n *Newest[T]) add(x T) {
	if len(n.List) == mergesKept {
		n.List = slices.Delete(n.List, 0, 1)
		n.Before++
	}
	n.List = append(n.List, x)
}

// Merged is a commit on the branch of the job: the work of an item, or what a phase has committed.
type Merged struct {
	Time   time.Time
	Commit string

	// The item whose work it is. It is empty for what a phase has committed.
	ItemID string

	Index   int
	Attempt int
	Files   int // that it changed

	// The phase that has committed it. It is empty for the work of an item.
	Phase string
}

// Short returns the name of the commit as people write it.
func (m Merged) Short() string { return events.ShortCommit(m.Commit) }

// Collision is work that could not be merged.
type Collision struct {
	Time    time.Time
	ItemID  string
	Index   int
	Attempt int

	// The paths in conflict, at most events.MaxConflicts.
	Conflicts []events.Conflict

	Action errorpolicy.Action

	// The next attempt resolves the conflict.
	Resolve bool
}

// Verify is a run of the steps that verify what was merged.
type Verify struct {
	Began time.Time

	// How long the run took, once it has ended.
	Duration time.Duration

	Commit  string
	ItemIDs []string

	// How often the batch has been halved.
	Depth int

	Passed bool

	// The step that failed.
	Step string

	Error string
}

// queued is an item in the merge queue.
type queued struct {
	id string

	// The number of the record by which the item came into the queue, which gives its place.
	seq int64

	since time.Time
}

// isPart reports whether all of some ids are among others that are more.
func isPart(some, all []string) bool {
	missing := func(id string) bool { return !slices.Contains(all, id) }
	return len(some) < len(all) && !slices.ContainsFunc(some, missing)
}
