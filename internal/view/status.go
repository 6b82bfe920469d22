package view

import "prodigy/internal/errorpolicy"

// Status is the present status of an item.
type Status string

const (
	Unseen     Status = "unseen"  // not in the log
	Pending    Status = "pending" // interrupted, will start again
	InFlight   Status = "running"
	Waiting    Status = "waiting" // for its next attempt
	Merging    Status = "merging" // its work waits to be merged
	Succeeded  Status = "success"
	DeadLetter Status = "failed"
	Skipped    Status = "skipped"
	Rejected   Status = "rejected"
	Evicted    Status = "gone" // a dead letter that was deleted
)

// Statuses returns the statuses that StatusOf returns, in the order in which people are shown them.
func Statuses() []Status {
	return []Status{DeadLetter, Rejected, Skipped, Waiting, InFlight, Merging, Pending, Succeeded}
}

// StatusOf returns the status of an item that is counted so, and that nothing runs for.
func StatusOf(s errorpolicy.Status) Status {
	if s == errorpolicy.Succeeded {
		return Succeeded
	}
	return Status(s.String())
}
