package view

import (
	"slices"
	"time"

	"prodigy/internal/events"
)

// Merges is what became of the work of agents, in a job with workspaces.
type Merges struct {
	Collisions Newest[Failure] // work that could not be merged

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

// Verify is a run of the steps that verify what was merged.
type Verify struct {
	Began time.Time
	events.VerifyStarted
	End events.VerifyCompleted // once it has ended
}

// Queued is an item whose work waits to be merged.
type Queued struct {
	ItemID string
	Index  int
	Since  time.Time

	// The number of the record by which the item came into the queue, which gives its place.
	seq int64
}
