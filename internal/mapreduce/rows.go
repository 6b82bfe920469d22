package mapreduce

import (
	"errors"
	"fmt"
	"io"
	"os"

	"prodigy/internal/items"
	"prodigy/internal/jobs"
)

// ErrNoItems is the error for the results of a job without items.
var ErrNoItems = errors.New("the job has no items, and so no results")

// WriteResults writes the rows of results.jsonl as the log has them by now, also of a job that goes on: a row for each
// item that has ended, in the order of the items. It changes no file of the job.
func WriteResults(place jobs.Job, w io.Writer) (err error) {
	store, err := items.OpenStore(place.ItemsFile())
	if errors.Is(err, os.ErrNotExist) {
		return ErrNoItems
	}
	if err != nil {
		return unusable(place, err)
	}
	known := store.Len()
	if err := store.Close(); err != nil {
		return err
	}
	scratch, err := os.CreateTemp("", "prodigy-results-*") // mode 0600
	if err != nil {
		return fmt.Errorf("make the results: %w", err)
	}
	defer func() { err = errors.Join(err, scratch.Close(), os.Remove(scratch.Name())) }()
	spans, err := writeRows(place, known, scratch, &rowNotes{})
	if err != nil {
		return err
	}
	return copySpans(w, scratch, spans)
}
