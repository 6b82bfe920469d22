package mapreduce

import (
	"errors"

	"prodigy/internal/dlq"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
)

// Chooser picks dead letters of a queue that is up to date, and returns their items. The job stays locked meanwhile.
type Chooser func(q *dlq.Queue) ([]string, error)

// ErrNoMap is the error for a job without items, which has no dead letters.
var ErrNoMap = errors.New("a standard workflow has no dead letters")

// Evict deletes the chosen dead letters and returns how many. It is recorded in the log, so a queue that is
// rebuilt from the log does not have them either. The state of the job stays as it is.
func Evict(c Config, place jobs.Job, reason string, choose Chooser) (int, error) {
	j, err := openJob(c, place)
	if err != nil {
		return 0, err
	}
	ids, err := j.chosen(choose)
	if err == nil && len(ids) > 0 {
		for _, id := range ids {
			j.Record(events.DLQItemRemoved{ItemID: id, Reason: reason})
		}
		j.Record(events.DLQItemsEvicted{Count: len(ids)})
	}
	if err = errors.Join(err, j.close()); err != nil {
		return 0, err
	}
	return len(ids), nil
}

func (j *owner) chosen(choose Chooser) ([]string, error) {
	if j.Queue == nil {
		return nil, ErrNoMap
	}
	return choose(j.Queue)
}
