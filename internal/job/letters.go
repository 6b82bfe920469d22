package job

import (
	"encoding/json"
	"errors"

	"prodigy/internal/check"
	"prodigy/internal/dlq"
	"prodigy/internal/events"
	"prodigy/internal/items"
	"prodigy/internal/jobs"
	"prodigy/internal/mask"
	"prodigy/internal/workflow"
)

// syncQueue tells the projection where the log of its job ends.
func syncQueue(place jobs.Job, p *dlq.Projection) error {
	last, err := events.Last(place.EventsDir())
	if err != nil {
		return err
	}
	return p.Behind(last.Seq)
}

// UpdateLetters brings the dead letters of a job up to date with its log, before they are read: a run may have
// been killed between recording a failure and writing its letter. It is cheap when there is nothing to do, and
// does nothing while the job runs. What m knows as secrets is masked.
func UpdateLetters(place jobs.Job, maxRetries int, m *mask.Masker) error {
	behind, err := lettersBehind(place)
	if err != nil || !behind {
		return err
	}
	return whileEnded(place, func() error { return updateLetters(place, maxRetries, m) })
}

// whileEnded calls do with the lock of a job, unless the job runs: then it sees to its files itself.
func whileEnded(place jobs.Job, do func() error) error {
	lock, err := place.Lock()
	if errors.Is(err, jobs.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(do(), lock.Unlock())
}

// lettersBehind reports whether the log of a job has records that its queue has not followed.
func lettersBehind(place jobs.Job) (bool, error) {
	meta, err := place.ReadMeta()
	if err != nil {
		return false, Unusable(place, err)
	}
	if meta.Mode != string(workflow.MapReduce) {
		return false, nil
	}
	last, err := events.Last(place.EventsDir())
	if err != nil {
		return false, Unusable(place, err)
	}
	applied, err := dlq.Applied(place.DLQFile())
	return applied != last.Seq, err
}

// updateLetters is UpdateLetters of a job whose lock is held.
func updateLetters(place jobs.Job, maxRetries int, m *mask.Masker) (err error) {
	meta, err := place.ReadMeta()
	if err != nil {
		return Unusable(place, err)
	}
	store, err := items.OpenStore(place.ItemsFile())
	if err != nil {
		return Unusable(place, err)
	}
	defer check.Join(&err, store.Close)
	queue, err := dlq.Open(place.DLQFile())
	if err != nil {
		return err
	}
	defer check.Join(&err, queue.Close)
	p := dlq.NewProjection(queue, place.ID, meta.Workflow, maxRetries, maskedData(store, m))
	defer check.Join(&err, p.Close)
	if err := syncQueue(place, p); err != nil {
		return err
	}
	w, err := RecordedWorkflow(place, meta)
	if err != nil {
		return err
	}
	known, err := ReadCheckpoint(place, w.ErrorPolicy).restore(p)
	if err != nil {
		return err
	}
	return known.follow(p)
}

// maskedData returns a function that returns the data of an item for a dead letter, without the secrets of the
// run that selected it and those that m knows.
func maskedData(store *items.Store, m *mask.Masker) func(index int) (json.RawMessage, error) {
	return func(index int) (json.RawMessage, error) {
		it, err := store.At(index)
		return m.JSON(it.Shown()), err
	}
}
