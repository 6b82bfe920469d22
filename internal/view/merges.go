package view

import (
	"slices"
	"time"

	"prodigy/internal/events"
)

// Merges is what became of the work of agents, in a job with workspaces.
type Merges struct {
	Collisions Newest[Collision]

	// The runs of verify that have ended.
	Verifies Newest[Verify]

	// The run of verify at work. It is nil if there is none.
	Verifying *Verify
}

// Newest is a list whose memory is bounded.
type Newest[T any] struct {
	List   []T // the oldest first
	Before int // that are not kept any more
}

// mergesKept bounds each list of Merges.
const mergesKept = 100

// add adds an element, in place of the oldest once there are mergesKept.
func (n *Newest[T]) add(x T) {
	if len(n.List) == mergesKept {
		n.List = slices.Delete(n.List, 0, 1)
		n.Before++
	}
	n.List = append(n.List, x)
}

// Collision is work that could not be merged.
type Collision struct {
	Time    time.Time
	ItemID  string
	Index   int
	Attempt int

	// The paths in conflict, at most events.MaxConflicts.
	Conflicts []events.Conflict
}

// Verify is a run of the steps that verify what was merged.
type Verify struct {
	Began time.Time

	// How long the run took, once it has ended.
	Duration time.Duration

	Commit  string
	ItemIDs []string

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
