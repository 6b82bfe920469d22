package view

import (
	"context"
	"errors"
	"iter"

	"prodigy/internal/events"
)

// Fold returns how a job stands by its records. What is incomplete at their end did not happen.
func Fold(records iter.Seq2[events.Record, error]) (*Job, error) {
	j := New()
	for r, err := range records {
		if errors.Is(err, events.ErrTorn) {
			break
		}
		if err != nil {
			return nil, err
		}
		j.Apply(r)
	}
	return j, nil
}

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
