package mapreduce

import (
	"encoding/json"
	"errors"

	"prodigy/internal/dlq"
	"prodigy/internal/events"
	"prodigy/internal/items"
	"prodigy/internal/jobs"
	"prodigy/internal/settings"
	"prodigy/internal/workflow"
)

// syncQueue tells the projection where the log of its job ends.
func syncQueue(place jobs.Job, p *dlq.Projection) error {
	last, err := events.LastSeq(place.EventsDir())
	if err != nil {
		return err
	}
	return p.Behind(last)
}

// UpdateLetters brings the dead letters of a job up to date with its log, before they are read: a run may have
// been killed between recording a failure and writing its letter. It is cheap when there is nothing to do, and
// does nothing while the job runs. The secrets in s are masked.
func UpdateLetters(place jobs.Job, maxRetries int, s settings.Settings) error {
	behind, err := lettersBehind(place)
	if err != nil || !behind {
		return err
	}
	lock, err := place.Lock()
	if errors.Is(err, jobs.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(updateLetters(place, maxRetries, s), lock.Unlock())
}

// lettersBehind reports whether the log of a job has records that its queue has not followed.
func lettersBehind(place jobs.Job) (bool, error) {
	meta, err := place.ReadMeta()
	if err != nil {
		return false, unusable(place, err)
	}
	if meta.Mode != string(workflow.MapReduce) {
		return false, nil
	}
	last, err := events.LastSeq(place.EventsDir())
	if err != nil {
		return false, unusable(place, err)
	}
	applied, err := dlq.Applied(place.DLQFile())
	return applied != last, err
}

// updateLetters is UpdateLetters of a job whose lock is held.
func updateLetters(place jobs.Job, maxRetries int, s settings.Settings) (err error) {
	meta, err := place.ReadMeta()
	if err != nil {
		return unusable(place, err)
	}
	store, err := items.OpenStore(place.ItemsFile())
	if err != nil {
		return unusable(place, err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	queue, err := dlq.Open(place.DLQFile())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, queue.Close()) }()
	p := dlq.NewProjection(queue, place.ID, meta.Workflow, maxRetries, maskedData(store, s))
	defer func() { err = errors.Join(err, p.Close()) }()
	if err := syncQueue(place, p); err != nil {
		return err
	}
	policy, err := recordedPolicy(place, meta)
	if err != nil {
		return err
	}
	known, err := readCheckpoint(place, policy).restore(p)
	if err != nil {
		return err
	}
	return followLog(known.rest, func(events.Record) {}, p.Apply)
}

// maskedData returns a function that returns the data of an item for a dead letter, without the secrets of the
// run that selected it and those in s.
func maskedData(store *items.Store, s settings.Settings) func(index int) (json.RawMessage, error) {
	return func(index int) (json.RawMessage, error) {
		it, err := store.At(index)
		return s.Mask.JSON(it.Shown()), err
	}
}

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
