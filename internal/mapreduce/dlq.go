package mapreduce

import (
	"encoding/json"
	"errors"

	"prodigy/internal/dlq"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/events"
	"prodigy/internal/items"
	"prodigy/internal/jobs"
	"prodigy/internal/settings"
	"prodigy/internal/workflow"
)

// syncQueue brings a queue up to date on how far the log of its job goes.
func syncQueue(place jobs.Job, p *dlq.Projection) error {
	last, err := events.LastSeq(place.EventsDir())
	if err != nil {
		return err
	}
	return p.Behind(last)
}

// UpdateLetters sees that the dead letters of a job are those of its log, before somebody reads them: a run that was killed may have
// recorded a failure and not come to write its letter. It costs next to nothing when there is nothing to do, and leaves a job that is
// running alone, because that does it itself. The secrets that s knows are masked.
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
	return followLog(known.rest, func(events.Record) errorpolicy.Effects { return errorpolicy.Effects{} }, p.Apply)
}

// maskedData returns what gives the data of an item for a dead letter, without the secrets of the run that chose it and those of s.
func maskedData(store *items.Store, s settings.Settings) func(index int) (json.RawMessage, error) {
	return func(index int) (json.RawMessage, error) {
		it, err := store.At(index)
		return s.Mask.JSON(it.Shown()), err
	}
}

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
