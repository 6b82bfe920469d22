package view

import (
	"context"

	"prodigy/internal/events"
)

// Follow sends the records of the log in dir that are there and those that come, until the job ends or ctx does. Running tells
// whether anybody runs the job, as for events.Follow.
func Follow(ctx context.Context, dir string, running func() bool, records chan<- events.Record) error {
	for line, err := range events.Follow(ctx, dir, events.Query{}, running) {
		if err != nil {
			return err
		}
		r, err := events.Decode(line)
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
