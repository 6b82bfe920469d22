package mapreduce

import (
	"errors"

	"prodigy/internal/dlq"
	"prodigy/internal/events"
	"prodigy/internal/jobs"
)

// Chooser picks dead letters of a queue that is up to date, and returns their items. The job stays locked meanwhile.
type Chooser func(q *dlq.Queue) ([]string, error)

// ErrNoMap says that a job has no items, and so no dead letters.
var ErrNoMap = errors.New("a standard workflow has no dead letters")

// Evict throws the dead letters away that are chosen, and returns how many. The log says so first, and the queue follows it: a queue
// that is made from the log again does not bring them back. How the job stands is left as it is.
func Evict(c Config, place jobs.Job, reason string, choose Chooser) (int, error) {
	j, err := openJob(c, place)
	if err != nil {
		return 0, err
	}
	ids, err := j.chosen(choose)
	if err == nil && len(ids) > 0 {
		for _, id := range ids {
			j.record(events.DLQItemRemoved{ItemID: id, Reason: reason})
		}
		j.record(events.DLQItemsEvicted{Count: len(ids)})
	}
	if err = errors.Join(err, j.close()); err != nil {
		return 0, err
	}
	return len(ids), nil
}

func (j *job) chosen(choose Chooser) ([]string, error) {
	if j.queue == nil {
		return nil, ErrNoMap
	}
	return choose(j.queue)
}
