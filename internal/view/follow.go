package view

import (
	"context"
	"iter"

	"prodigy/internal/events"
)

// Fold returns the view of a job after all its records. A torn last record is ignored.
func Fold(records iter.Seq2[events.Record, error]) (*Job, error) {
	j := New()
	return j, events.Each(records, j.Apply)
}

// Follow sends the records of the log in dir, then new ones as they come, until the job or ctx ends. Running
// reports whether a process runs the job, as for events.Follow.
func Follow(ctx context.Context, dir string, running func() bool, records chan<- events.Record) error {
	for r, err := range events.FollowRecords(ctx, dir, running) {
		if err != nil {
			return err
		}
		select {
		case records <- r:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}
